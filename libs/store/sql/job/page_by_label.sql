-- As page.sql, for labels $6. A label that many jobs have fills the page from the first names on, one that few have is looked
-- up; nothing tells beforehand which it is. So: a look at the next names, and if they don't fill the page, the look-up.
WITH near AS MATERIALIZED (
    SELECT j.id, j.name, j.paused_at, j.definition
    FROM job j
    WHERE j.tenant_id = $1 AND j.deleted_at IS NULL
      AND j.name COLLATE "C" > $2 AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~'
    ORDER BY j.name COLLATE "C"
    LIMIT 20 * $8::bigint
), walked AS MATERIALIZED (
    SELECT j.id, j.name FROM near j
    WHERE ($4::text IS NULL OR j.definition ->> 'queue' = $4)
      AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
      AND j.definition -> 'labels' @> $6
      AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
    LIMIT $8
), having_it AS MATERIALIZED ( -- without an order and a limit, which would make it a walk too
    SELECT j.id FROM job j
    WHERE (SELECT count(*) FROM walked) < $8 AND (SELECT count(*) FROM near) = 20 * $8::bigint
      AND j.deleted_at IS NULL AND j.definition -> 'labels' @> $6
), found AS (
    SELECT id, name FROM walked
    UNION
    SELECT j.id, j.name FROM having_it h CROSS JOIN LATERAL (SELECT * FROM job j WHERE j.id = h.id LIMIT 1) j -- by its key, however many
    WHERE j.tenant_id = $1 AND j.name COLLATE "C" > $2 AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~'
      AND ($4::text IS NULL OR j.definition ->> 'queue' = $4)
      AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
      AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
)
SELECT j.id, j.tenant_id, j.generation, j.created_at, j.updated_at, j.deleted_at, j.name, j.definition, j.broken, j.paused_at,
       j.pause_reason, (SELECT esc_now()) AS seen_at
FROM (SELECT id, name FROM found ORDER BY name COLLATE "C" LIMIT $8) f JOIN job j ON j.id = f.id
ORDER BY j.name COLLATE "C"
