-- The leaderships of role $1 that finished a cycle at $2 or later or are not over, in order: when each was at work. No
-- row: nobody was.
SELECT revision, began_at, last_cycle_at FROM term
WHERE role = $1 AND (last_cycle_at >= $2 OR ended_at IS NULL)
ORDER BY began_at
