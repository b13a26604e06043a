-- Locks the check-ins of tenant $1 with the names $2, in order. No row for a name that is none.
SELECT id FROM check_in WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[]) ORDER BY id FOR UPDATE
