-- The channels of tenant $1, by name.
SELECT id, name, url, secret, created_at FROM alert_channel WHERE tenant_id = $1 AND deleted_at IS NULL ORDER BY name
