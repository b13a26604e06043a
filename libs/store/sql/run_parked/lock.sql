-- Locks the parked runs of the jobs $1, in order, and says what waits there: the rows as they are once locked.
SELECT job_id, scheduled_for, origin::text AS origin, overlap::text AS overlap FROM run_parked
WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE
