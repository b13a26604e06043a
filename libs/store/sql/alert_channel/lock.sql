-- Locks the channels of tenant $1 with the names $2, in order, for a change or deletion.
SELECT id FROM alert_channel WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[]) ORDER BY id FOR UPDATE
