-- The locked cursors of the jobs $1, each with the revisions from the one in force at its instant on, or from
-- generation $2 (NULL: none) of the same place on if that is lower, in order. A row for each revision; none for a job
-- whose generation is not its cursor's: it is left for the next batch.
SELECT c.job_id, c.next_fire_at, c.broken, j.tenant_id, j.name, j.created_at,
       r.generation, r.in_force_from, r.action = 'DELETED' AS deleted, r.paused, r.catches_up, r.definition
FROM unnest($1::uuid[], $2::bigint[]) AS k(job_id, generation)
JOIN job_cursor c ON c.job_id = k.job_id
JOIN job j ON j.id = c.job_id AND j.generation = c.generation
JOIN job_revision r ON r.job_id = c.job_id
WHERE r.generation >= coalesce(least(k.generation, (SELECT max(b.generation) FROM job_revision b
                                                    WHERE b.job_id = c.job_id AND b.in_force_from < c.next_fire_at)), 0)
ORDER BY c.job_id, r.generation
