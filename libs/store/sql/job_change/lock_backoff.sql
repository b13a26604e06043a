-- Locks the leases of job $1 that wait for a retry, in order.
SELECT job_id FROM run_lease WHERE job_id = $1 AND session_id IS NULL ORDER BY scheduled_for FOR UPDATE
