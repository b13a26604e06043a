-- The channels of tenant $1 whose name comes after $2, by name, at most $3. No row: no more.
SELECT id, tenant_id, name, kind, url, target, secret, accepts, system, created_at FROM alert_channel
WHERE tenant_id = $1 AND deleted_at IS NULL AND name > $2
ORDER BY name LIMIT $3
