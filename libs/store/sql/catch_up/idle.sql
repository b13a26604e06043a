-- Jobs whose backlog has no run out and none queued: somebody died between ending one and queueing the next. At most
-- 1,000; none is the rule.
SELECT c.job_id FROM catch_up c
WHERE NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = c.job_id)
  AND NOT EXISTS (SELECT FROM run_queue q WHERE q.job_id = c.job_id AND q.origin IN ('CATCH_UP', 'BACKFILL'))
ORDER BY c.job_id LIMIT 1000
