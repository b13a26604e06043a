-- Locks the leases of the jobs $1, in order, and says who holds them: the rows as they are once locked. While they are,
-- nobody can end one of these runs, so that a run that is parked now is woken by that end.
SELECT job_id, scheduled_for, attempt, token, session_id, cancel_requested IS NOT NULL AS asked FROM run_lease
WHERE job_id = ANY($1::uuid[]) ORDER BY job_id, scheduled_for FOR UPDATE
