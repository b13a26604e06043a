-- Removes dispatchers that were not renewed for a day and have no open session; the misfire policy's search for causes
-- looks no further back. A row for each.
DELETE FROM dispatcher d WHERE d.renewed_at < (SELECT esc_now()) - interval '1 day'
  AND NOT EXISTS (SELECT FROM worker_session w WHERE w.dispatcher_id = d.id AND w.ended_at IS NULL)
RETURNING d.id
