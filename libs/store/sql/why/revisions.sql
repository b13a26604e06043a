-- The revisions of job $1 that say what applied at $2, in order: the one in force then and the one that replaced it, those
-- that began and ended the pause in which it lies, and generation $3 (NULL: none) and the one that replaced that.
-- `here` marks the one in force. No such row: the job did not exist yet.
WITH here AS MATERIALIZED (
    SELECT max(generation) AS generation FROM job_revision WHERE job_id = $1 AND in_force_from < $2
), pause AS MATERIALIZED (
    SELECT h.generation AS here,
           (SELECT max(b.generation) FROM job_revision b
            WHERE b.job_id = $1 AND b.generation < h.generation AND NOT b.paused) + 1 AS begins,
           (SELECT min(e.generation) FROM job_revision e
            WHERE e.job_id = $1 AND e.generation > h.generation AND NOT e.paused) AS ends
    FROM here h
)
SELECT r.generation, r.in_force_from, r.action, r.author, r.reason, r.paused, r.catches_up, r.definition,
       r.generation IS NOT DISTINCT FROM p.here AS here
FROM pause p
JOIN job_revision r ON r.job_id = $1
    AND r.generation = ANY(ARRAY[p.here, p.here + 1, p.begins, p.ends, $3::bigint, $3::bigint + 1])
ORDER BY r.generation
