-- The check-ins of tenant $1 with the names $2, as find.sql shows one. No row for a name that is none.
SELECT c.id, c.tenant_id, c.name, c.definition, c.generation, c.created_at, c.updated_at, c.paused_at, c.judged_through,
       c.last_start_at, c.last_success_at, c.last_failure_at,
       EXISTS (SELECT FROM alert a WHERE a.check_in_id = c.id AND a.resolved_at IS NULL AND a.subject = 'CHECK_IN') AS missing
FROM check_in c
WHERE c.tenant_id = $1 AND c.deleted_at IS NULL AND c.name = ANY($2::text[])
ORDER BY c.name
