-- Alert $2 of tenant $1. No row when the tenant has no such alert.
SELECT a.id, a.subject, a.job_id, a.check_in_id, coalesce(j.name, c.name, a.system_key) AS name, a.first_occurrence,
       a.last_occurrence, a.opened_at, a.resolved_at, a.acknowledged_at, a.acknowledged_by, a.silenced_until,
       a.next_repeat_at, a.untold, a.explained_by, a.count, a.kind, a.cause, a.detail, a.severity, a.labels, a.resolution,
       CASE WHEN a.resolved_at IS NOT NULL THEN 'RESOLVED'
            WHEN a.acknowledged_at IS NOT NULL THEN 'ACKNOWLEDGED'
            WHEN a.silenced_until > esc_now() THEN 'SILENCED'
            ELSE 'OPEN' END AS state
FROM alert a
LEFT JOIN job j ON j.id = a.job_id
LEFT JOIN check_in c ON c.id = a.check_in_id
WHERE a.tenant_id = $1 AND a.id = $2
