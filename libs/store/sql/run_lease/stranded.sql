-- Leases that nothing will move: without a session, and without a row in the queue that would bring the next attempt.
-- Must be none; at most 100.
SELECT l.job_id, l.scheduled_for, l.attempt, l.token FROM run_lease l
WHERE l.session_id IS NULL
  AND NOT EXISTS (SELECT FROM run_queue q WHERE q.job_id = l.job_id AND q.scheduled_for = l.scheduled_for)
LIMIT 100
