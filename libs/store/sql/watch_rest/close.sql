-- Removes the locked rests ($1 job_id, $2 through), which are judged to their end.
DELETE FROM watch_rest w USING unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, through)
WHERE w.job_id = k.job_id AND w.through = k.through
