-- Locks the calendars of tenant $1 with the names $2, in order, for a change or deletion.
SELECT name FROM calendar WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[]) ORDER BY name FOR UPDATE
