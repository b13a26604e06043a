-- Locks the cursors of the jobs $1, in order; those that somebody else has locked are left out.
SELECT job_id FROM job_cursor WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE SKIP LOCKED
