-- Ends the backlog of job $1 and names its runs that are planned, and neither queued nor parked. No row: there was none.
-- The caller holds the backlog's lock.
WITH gone AS (
    DELETE FROM catch_up WHERE job_id = $1 RETURNING job_id, next_at, through
)
SELECT r.scheduled_for
FROM gone JOIN run r ON r.job_id = gone.job_id AND r.scheduled_for BETWEEN gone.next_at AND gone.through
WHERE r.state = 'PLANNED' AND r.origin <> 'MANUAL'
  AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.job_id = r.job_id AND q.scheduled_for = r.scheduled_for)
  AND NOT EXISTS (SELECT 1 FROM run_lease l WHERE l.job_id = r.job_id AND l.scheduled_for = r.scheduled_for)
  -- parked since before the backlog came: it is taken out of there
  AND NOT EXISTS (SELECT 1 FROM run_parked p WHERE p.job_id = r.job_id AND p.scheduled_for = r.scheduled_for)
