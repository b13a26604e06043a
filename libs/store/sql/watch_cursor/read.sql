-- The locked cursors of the jobs $1, and the locked rests ($2 job_id, $3 through): from where each goes on, and every
-- revision of its job from the one in force there on, in order. A row for each revision.
WITH position AS (
    SELECT w.job_id, NULL::timestamptz AS through,
           coalesce(w.judged_through, w.next_at - interval '1 microsecond', j.created_at) AS judged_through
    FROM watch_cursor w JOIN job j ON j.id = w.job_id WHERE w.job_id = ANY($1::uuid[])
    UNION ALL
    SELECT w.job_id, w.through, w.judged_through
    FROM watch_rest w JOIN unnest($2::uuid[], $3::timestamptz[]) AS k(job_id, through) USING (job_id, through)
)
SELECT p.job_id, p.through, p.judged_through, j.tenant_id, j.name, j.created_at,
       r.in_force_from, r.action = 'DELETED' AS deleted, r.paused, r.definition
FROM position p
JOIN job j ON j.id = p.job_id
JOIN job_revision r ON r.job_id = p.job_id
WHERE r.in_force_from >= coalesce((SELECT max(b.in_force_from) FROM job_revision b
                                   WHERE b.job_id = p.job_id AND b.in_force_from <= p.judged_through), '-infinity')
ORDER BY p.job_id, p.through NULLS FIRST, r.generation
