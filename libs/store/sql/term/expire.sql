-- Deletes up to $2 leaderships that ended before $1, the oldest first. The last one of each role stays: its successor
-- measures the gap from it.
DELETE FROM term t
USING (SELECT o.role, o.revision FROM term o
       WHERE o.ended_at < $1
         AND EXISTS (SELECT FROM term n WHERE n.role = o.role AND n.began_at > o.began_at)
       ORDER BY o.ended_at LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE t.role = old.role AND t.revision = old.revision
