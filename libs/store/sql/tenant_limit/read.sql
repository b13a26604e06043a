-- What tenant $1 may define and see. No row: there is no such tenant.
SELECT t.name, coalesce(l.generation, 1) AS generation, l.max_jobs, l.min_interval_s, l.max_payload_bytes, l.history_days
FROM tenant t LEFT JOIN tenant_limit l ON l.tenant_id = t.id
WHERE t.id = $1
