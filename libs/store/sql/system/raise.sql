-- Opens an alert about the system unless one of its kind is open: $1 id, $2 tenant, $3 kind, $4 what it is about, $5
-- severity, $6 how many, $7 in words. No row: one is open.
INSERT INTO alert (id, tenant_id, opened_at, count, kind, cause, detail, subject, severity, system_key)
VALUES ($1, $2, esc_now(), greatest($6::bigint, 1), $3, $3, $7, 'SYSTEM', $5, $4)
ON CONFLICT (tenant_id, system_key, kind) WHERE resolved_at IS NULL AND subject = 'SYSTEM' DO NOTHING
RETURNING opened_at
