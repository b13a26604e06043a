-- Locks the backlogs of the jobs $1, in order. No row for a job without one.
SELECT job_id FROM catch_up WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE
