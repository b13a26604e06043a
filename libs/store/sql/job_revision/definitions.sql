-- The definitions with the keys ($1, $2): job, generation. A missing one does not exist.
SELECT v.job_id, v.generation, v.definition
FROM job_revision v JOIN unnest($1::uuid[], $2::bigint[]) AS k(job_id, generation) USING (job_id, generation)
