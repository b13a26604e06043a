-- The jobs of tenant $1 that have all of the labels $2, at most $3. Seen without a lock: look again once it is held.
SELECT id FROM job WHERE tenant_id = $1 AND deleted_at IS NULL AND definition -> 'labels' @> $2 ORDER BY id LIMIT $3
