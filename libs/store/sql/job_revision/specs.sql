-- What the attempts of the generations ($1, $2) of jobs execute, and what the job is called at present. A missing one does
-- not exist. One by one: a join would read every revision when it takes the keys for many.
SELECT k.job_id, k.generation, coalesce(j.name, '') AS job_name, v.definition
FROM unnest($1::uuid[], $2::bigint[]) AS k(job_id, generation)
CROSS JOIN LATERAL (
    SELECT v.definition FROM job_revision v WHERE v.job_id = k.job_id AND v.generation = k.generation LIMIT 1
) v
LEFT JOIN LATERAL (SELECT j.name FROM job j WHERE j.id = k.job_id LIMIT 1) j ON true
