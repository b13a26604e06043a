-- Up to $8 alerts of tenant $1 opened before ($2, $3), the newest first: of job $4, check-in $5, a severity of $6 and a
-- state of $7 (NULL or empty: any). What it is about is named as it is called now.
SELECT a.id, a.subject, a.job_id, a.check_in_id, coalesce(j.name, c.name, a.system_key) AS name, a.first_occurrence,
       a.last_occurrence, a.opened_at, a.resolved_at, a.acknowledged_at, a.acknowledged_by, a.silenced_until,
       a.next_repeat_at, a.untold, a.explained_by, a.count, a.kind, a.cause, a.detail, a.severity, a.labels, a.resolution,
       s.state
FROM alert a
LEFT JOIN job j ON j.id = a.job_id
LEFT JOIN check_in c ON c.id = a.check_in_id
CROSS JOIN LATERAL (
    SELECT CASE WHEN a.resolved_at IS NOT NULL THEN 'RESOLVED'
                WHEN a.acknowledged_at IS NOT NULL THEN 'ACKNOWLEDGED'
                WHEN a.silenced_until > (SELECT esc_now()) THEN 'SILENCED'
                ELSE 'OPEN' END AS state
) s
WHERE a.tenant_id = $1 AND (a.opened_at, a.id) < ($2, $3)
  AND ($4::uuid IS NULL OR a.job_id = $4) AND ($5::uuid IS NULL OR a.check_in_id = $5)
  AND (cardinality($6::text[]) = 0 OR a.severity = ANY($6)) AND (cardinality($7::text[]) = 0 OR s.state = ANY($7))
ORDER BY a.opened_at DESC, a.id DESC LIMIT $8
