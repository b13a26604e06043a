-- Removes dispatcher $1 if no session is left with it. No row: one is.
DELETE FROM dispatcher d WHERE d.id = $1
  AND NOT EXISTS (SELECT FROM worker_session w WHERE w.dispatcher_id = d.id AND w.ended_at IS NULL)
RETURNING d.id
