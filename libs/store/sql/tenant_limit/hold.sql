-- Locks what limits the tenant $1, so that nobody else counts what it has, or changes a limit, until the transaction ends.
INSERT INTO tenant_limit (tenant_id) VALUES ($1) ON CONFLICT (tenant_id) DO UPDATE SET tenant_id = excluded.tenant_id
