-- Every channel of the tenants $1, with what it wants to be told. No row for a tenant that has none.
SELECT id, tenant_id, name, accepts, system FROM alert_channel
WHERE tenant_id = ANY($1::uuid[]) AND deleted_at IS NULL
ORDER BY tenant_id, name
