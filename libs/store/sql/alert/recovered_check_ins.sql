-- Locks up to $1 open alerts of check-ins that have nothing left to complain about: it is deleted or paused, or has reported
-- success after the last thing that is complained of. A row for each, with why.
SELECT a.id, a.check_in_id, c.name, a.first_occurrence, a.last_occurrence, a.count, a.cause, a.severity, a.labels,
       CASE WHEN c.deleted_at IS NOT NULL THEN 'JOB_DELETED'
            WHEN c.paused_at IS NOT NULL THEN 'JOB_PAUSED'
            ELSE 'SUCCEEDED' END AS resolution
FROM alert a
CROSS JOIN LATERAL (
    SELECT c.name, c.deleted_at, c.paused_at, c.last_success_at FROM check_in c WHERE c.id = a.check_in_id OFFSET 0
) c
WHERE a.resolved_at IS NULL AND a.subject = 'CHECK_IN'
  AND (c.deleted_at IS NOT NULL OR c.paused_at IS NOT NULL OR c.last_success_at > a.last_occurrence)
ORDER BY a.check_in_id LIMIT $1
FOR UPDATE OF a
