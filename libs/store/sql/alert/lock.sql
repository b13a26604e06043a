-- Locks alert $2 of tenant $1. No row when the tenant has no such alert.
SELECT id FROM alert WHERE tenant_id = $1 AND id = $2 FOR UPDATE
