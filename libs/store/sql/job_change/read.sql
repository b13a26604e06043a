-- The jobs $1, which the caller has locked in an earlier statement, by id. No row for an id that is no job.
SELECT id, tenant_id, generation, created_at, updated_at, deleted_at, name, definition, broken, paused_at, pause_reason,
       (SELECT esc_now()) AS seen_at
FROM job WHERE id = ANY($1::uuid[]) ORDER BY id
