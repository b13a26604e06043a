-- Locks the sessions $1, in order. A missing one does not exist.
SELECT id FROM worker_session WHERE id = ANY($1::uuid[]) ORDER BY id FOR UPDATE
