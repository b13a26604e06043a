-- Pauses job $2 at $1 with the new generation $3, for the reason $4. The caller holds its lock.
UPDATE job SET paused_at = $1, pause_reason = $4, updated_at = $1, generation = $3 WHERE id = $2
