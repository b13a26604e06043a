-- Deletes the calendar $2 of tenant $1 at $3, softly: its versions stay readable. The caller holds the row's lock.
UPDATE calendar SET deleted_at = $3 WHERE tenant_id = $1 AND name = $2 AND deleted_at IS NULL
