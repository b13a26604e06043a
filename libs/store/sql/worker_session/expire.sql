-- Deletes up to $2 sessions that ended before $1, the oldest first: runs that name them are from before it too, and gone.
DELETE FROM worker_session w
USING (SELECT o.id FROM worker_session o
       WHERE o.ended_at < $1 AND NOT EXISTS (SELECT FROM run_lease l WHERE l.session_id = o.id)
       ORDER BY o.ended_at LIMIT $2 FOR UPDATE OF o SKIP LOCKED) old
WHERE w.id = old.id
