-- Jobs whose backlog has no run out and none queued: somebody died between ending one and queueing the next. At most
-- 1,000; none is the rule. A paused job's backlog rests.
SELECT c.job_id FROM catch_up c
WHERE NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = c.job_id)
  AND NOT EXISTS (SELECT FROM run_queue q WHERE q.job_id = c.job_id AND q.origin IN ('CATCH_UP', 'BACKFILL'))
  AND NOT EXISTS (SELECT FROM job j WHERE j.id = c.job_id AND j.paused_at IS NOT NULL)
ORDER BY c.job_id LIMIT 1000
