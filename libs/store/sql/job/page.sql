-- The jobs of tenant $1 whose name comes after $2, by name, at most $3. No row: no more.
SELECT id, tenant_id, generation, created_at, updated_at, deleted_at, name, definition, broken, paused_at, pause_reason,
       (SELECT esc_now()) AS seen_at
FROM job
WHERE tenant_id = $1 AND deleted_at IS NULL AND name > $2
ORDER BY name
LIMIT $3
