-- Locks what is queued of the jobs $1, in order, waiting for claims that hold some of it: when they commit, their
-- rows are gone.
SELECT job_id FROM run_queue WHERE job_id = ANY($1::uuid[]) ORDER BY job_id, scheduled_for FOR UPDATE
