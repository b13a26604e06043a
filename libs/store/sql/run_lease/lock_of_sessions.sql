-- Locks the leases of the sessions $1, in order.
SELECT job_id FROM run_lease WHERE session_id = ANY($1::uuid[]) ORDER BY job_id, scheduled_for FOR UPDATE
