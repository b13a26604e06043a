-- Ends the pause of job $2 at $1 with the new generation $3. The caller holds its lock.
UPDATE job SET paused_at = NULL, pause_reason = NULL, updated_at = $1, generation = $3 WHERE id = $2
