-- Takes out of the queue what the schedule planned after $2 for the jobs $1 and nobody has taken. Rows in their
-- jitter window and retries stay. A row for each; a run that is missing here was released: its state in `run` proves
-- nothing. The caller has locked the rows in an earlier statement.
DELETE FROM run_queue
WHERE job_id = ANY($1::uuid[]) AND scheduled_for > $2 AND origin = 'SCHEDULE' AND attempt = 0
RETURNING job_id, scheduled_for
