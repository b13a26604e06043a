-- Records definitions in force from $1, by author $2, for action $3; $4..$6 are arrays of one length: job_id,
-- generation, definition.
INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition)
SELECT v.job_id, v.generation, $1, $3, $2, v.definition
FROM unnest($4::uuid[], $5::bigint[], $6::jsonb[]) AS v(job_id, generation, definition)
