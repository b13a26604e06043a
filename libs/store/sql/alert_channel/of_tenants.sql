-- Every channel of the tenants $1.
SELECT id, tenant_id, name, kind, url, target, secret, accepts, system, created_at FROM alert_channel WHERE tenant_id = ANY($1::uuid[]) AND deleted_at IS NULL ORDER BY tenant_id, name
