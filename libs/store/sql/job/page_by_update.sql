-- The jobs of tenant $1 whose name begins with $3, the latest change first, at most $8, from $2, $9 on: the change and
-- id of the last one seen (NULL: from the first). $4 to $7 as in page.sql. No row: no more.
SELECT j.id, j.tenant_id, j.generation, j.created_at, j.updated_at, j.deleted_at, j.name, j.definition, j.broken, j.paused_at,
       j.pause_reason, (SELECT esc_now()) AS seen_at
FROM job j
WHERE j.tenant_id = $1 AND j.deleted_at IS NULL
  AND (j.updated_at, j.id) < (coalesce($2::timestamptz, 'infinity'), coalesce($9::uuid, '00000000-0000-0000-0000-000000000000'))
  AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~'
  AND ($4::text IS NULL OR j.definition ->> 'queue' = $4)
  AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
  AND ($6::jsonb IS NULL OR j.definition -> 'labels' @> $6)
  AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
ORDER BY j.updated_at DESC, j.id DESC
LIMIT $8
