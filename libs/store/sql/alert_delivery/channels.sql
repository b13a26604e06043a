-- The channels with the names $2 of the tenants $1 (arrays of one length). No row for a name that is none.
SELECT DISTINCT c.tenant_id, c.name, c.id
FROM alert_channel c JOIN unnest($1::uuid[], $2::text[]) AS k(tenant_id, name) USING (tenant_id, name)
WHERE c.deleted_at IS NULL
