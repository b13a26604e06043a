-- Keeps an outage of this database, which lasted $3 milliseconds, as the alert $1 of tenant $2 that is over; $4 kind, $5 in
-- words.
INSERT INTO alert (id, tenant_id, opened_at, resolved_at, kind, cause, detail, subject, severity, system_key, resolution)
SELECT $1, $2, now.at - $3::bigint * interval '1 millisecond', now.at, $4, $4, $5, 'SYSTEM', 'CRITICAL', 'cell', 'OVER'
FROM (SELECT esc_now() AS at) now
ON CONFLICT (id) DO NOTHING
