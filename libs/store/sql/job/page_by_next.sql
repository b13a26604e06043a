-- The jobs of tenant $1 that are due again and whose name begins with $3, the next one first, at most $8, from $2, $9 on:
-- the next instant and id of the last one seen (NULL: from the first). $4 to $7 as in page.sql. Of what is planned already
-- the queue knows the next instant, of the rest the planner's cursor. No row: no more.
WITH planned AS MATERIALIZED (
    SELECT q.job_id, min(q.scheduled_for) AS next FROM run_queue q
    WHERE q.tenant_id = $1 AND q.origin = 'SCHEDULE' AND q.attempt = 0 AND q.scheduled_for > (SELECT esc_now())
    GROUP BY q.job_id
), due AS (
    (SELECT p.job_id, p.next FROM planned p JOIN job j ON j.id = p.job_id
     WHERE (p.next, p.job_id) > (coalesce($2::timestamptz, '-infinity'), coalesce($9::uuid, '00000000-0000-0000-0000-000000000000'))
       AND j.deleted_at IS NULL AND j.paused_at IS NULL
       AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~'
       AND ($4::text IS NULL OR j.definition ->> 'queue' = $4)
       AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
       AND ($6::jsonb IS NULL OR j.definition -> 'labels' @> $6)
       AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
     ORDER BY p.next, p.job_id LIMIT $8)
    UNION ALL
    (SELECT k.job_id, k.next_fire_at FROM job_cursor k JOIN job j ON j.id = k.job_id
     WHERE NOT k.broken AND k.next_fire_at >= coalesce($2::timestamptz, '-infinity')
       AND (k.next_fire_at, k.job_id) > (coalesce($2::timestamptz, '-infinity'), coalesce($9::uuid, '00000000-0000-0000-0000-000000000000'))
       AND NOT EXISTS (SELECT FROM planned p WHERE p.job_id = k.job_id)
       AND j.tenant_id = $1 AND j.deleted_at IS NULL AND j.paused_at IS NULL
       AND j.name COLLATE "C" >= $3 AND j.name COLLATE "C" < $3 || '~'
       AND ($4::text IS NULL OR j.definition ->> 'queue' = $4)
       AND ($5::boolean IS NULL OR (j.paused_at IS NOT NULL) = $5)
       AND ($6::jsonb IS NULL OR j.definition -> 'labels' @> $6)
       AND ($7::text[] = '{}' OR j.definition -> 'labels' ?& $7)
     ORDER BY k.next_fire_at, k.job_id LIMIT $8)
)
SELECT j.id, j.tenant_id, j.generation, j.created_at, j.updated_at, j.deleted_at, j.name, j.definition, j.broken, j.paused_at,
       j.pause_reason, (SELECT esc_now()) AS seen_at, d.next AS next_fire_at
FROM (SELECT * FROM due ORDER BY next, job_id LIMIT $8) d JOIN job j ON j.id = d.job_id
ORDER BY d.next, d.job_id
