-- The job of tenant $1 that has the id $2 (deleted ones too) or, when none has, the name $3 and is not deleted. $2 is
-- NULL when the text that names the job is no id. No row: the tenant has no such job.
SELECT id, tenant_id, generation, created_at, updated_at, deleted_at, name, definition, broken, paused_at, pause_reason,
       (SELECT esc_now()) AS seen_at
FROM job
WHERE tenant_id = $1 AND (id = $2 OR (name = $3 AND deleted_at IS NULL))
ORDER BY (id = $2) DESC NULLS LAST
LIMIT 1
