-- Notes the new connection $2 in the leases of session $1, which the caller has locked.
UPDATE run_lease SET connection = $2 WHERE session_id = $1
