-- Locks the planner's cursors of the jobs $1, in order: no instant of theirs is planned until the caller commits.
SELECT job_id FROM job_cursor WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE
