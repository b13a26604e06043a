-- Locks the check-in of tenant $1 with the name $2. No row when the tenant has none.
SELECT id FROM check_in WHERE tenant_id = $1 AND deleted_at IS NULL AND name = $2 FOR UPDATE
