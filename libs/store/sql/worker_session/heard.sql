-- The worker of session $1 has spoken on connection $2. No row: it had before, or that is not the present connection.
UPDATE worker_session SET unheard = 0 WHERE id = $1 AND connection = $2 AND unheard > 0 RETURNING id
