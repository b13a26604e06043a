-- The alerts about the system that are open. No row: none is.
SELECT id, tenant_id, kind, system_key FROM alert WHERE resolved_at IS NULL AND subject = 'SYSTEM'
