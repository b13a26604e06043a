-- The jobs and check-ins of tenant $1 that name the channel $2, by name, at most $3. No row: none does.
SELECT u.kind, u.name
FROM (
    SELECT 'job' AS kind, j.name FROM job j
    WHERE j.tenant_id = $1 AND j.deleted_at IS NULL AND j.definition -> 'alert' -> 'channels' ? $2
    UNION ALL
    SELECT 'check-in', c.name FROM check_in c
    WHERE c.tenant_id = $1 AND c.deleted_at IS NULL AND c.definition -> 'channels' ? $2
) u
ORDER BY u.kind DESC, u.name LIMIT $3
