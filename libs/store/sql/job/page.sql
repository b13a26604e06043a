-- The jobs of tenant $1 whose name comes after $2 and begins with $3, by name, at most $8: of queue $4, paused or not
-- as $5 says, with the labels $6 and any value of the labels $7 (NULL, or none: whichever). No row: no more.
SELECT j.id, j.tenant_id, j.generation, j.created_at, j.updated_at, j.deleted_at, j.name, j.definition, j.broken, j.paused_at,
       j.pause_reason, (SELECT esc_now()) AS seen_at
FROM job j
WHERE j.tenant_id = $1 AND j.deleted_at IS NULL
  AND j.name COLLATE "C" > $2
  AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~' -- which comes after all that a name may hold
  AND ($4::text IS NULL OR j.definition ->> 'queue' = $4)
  AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
  AND ($6::jsonb IS NULL OR j.definition -> 'labels' @> $6)
  AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
ORDER BY j.name COLLATE "C"
LIMIT $8
