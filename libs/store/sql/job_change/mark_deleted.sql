-- Deletes job $2 at $1, softly, with the new generation $3; a pause ends with it. The caller holds its lock.
UPDATE job SET deleted_at = $1, updated_at = $1, generation = $3, paused_at = NULL, pause_reason = NULL
WHERE id = $2 AND deleted_at IS NULL
