-- Holds what is queued of job $1: it is not due before it is released. The caller has locked the rows in an earlier
-- statement. A row for each.
UPDATE run_queue SET due_at = 'infinity' WHERE job_id = $1 RETURNING scheduled_for
