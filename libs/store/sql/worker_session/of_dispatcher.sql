-- The open sessions of dispatcher $1.
SELECT id, connection FROM worker_session WHERE dispatcher_id = $1 AND ended_at IS NULL
