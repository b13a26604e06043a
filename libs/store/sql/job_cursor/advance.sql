-- Moves the locked cursors of the jobs $1 to the instants $2, the first that are not planned (NULL: there is none).
UPDATE job_cursor k SET next_fire_at = c.next_fire_at
FROM unnest($1::uuid[], $2::timestamptz[]) AS c(job_id, next_fire_at)
WHERE k.job_id = c.job_id
