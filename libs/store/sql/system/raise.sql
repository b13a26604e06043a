-- Opens an alert about the system unless one of its kind is open: $1 id, $2 tenant, $3 kind, $4 what it is about, $5
-- severity, $6 how many, $7 in words; told again after $8 milliseconds. No row: one is open.
INSERT INTO alert (id, tenant_id, opened_at, next_repeat_at, count, kind, cause, detail, subject, severity, system_key)
SELECT $1, $2, now.at, now.at + $8::bigint * interval '1 millisecond', greatest($6::bigint, 1), $3, $3, $7, 'SYSTEM', $5, $4
FROM (SELECT esc_now() AS at) now
ON CONFLICT (tenant_id, system_key, kind) WHERE resolved_at IS NULL AND subject = 'SYSTEM' DO NOTHING
RETURNING opened_at
