-- The instant before which tenant $1 sees no runs. No row: it sees all.
SELECT (SELECT esc_now()) - l.history_days * interval '1 day' AS shown_from
FROM tenant_limit l WHERE l.tenant_id = $1 AND l.history_days IS NOT NULL
