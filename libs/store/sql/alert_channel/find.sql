-- The channels of tenant $1 with the names $2. No row for a name that is none.
SELECT id, tenant_id, name, kind, url, target, secret, accepts, system, created_at FROM alert_channel
WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[])
ORDER BY name
