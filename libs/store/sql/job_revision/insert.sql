-- Records definitions in force from $1, by author $2, for action $3; $4..$7 are arrays of one length: job_id,
-- generation, definition, paused. $8: the pause that this ends counts as an outage. $9: the author's reason, or NULL.
INSERT INTO job_revision (job_id, generation, in_force_from, action, author, definition, paused, catches_up, reason)
SELECT v.job_id, v.generation, $1, $3, $2, v.definition, v.paused, $8, $9
FROM unnest($4::uuid[], $5::bigint[], $6::jsonb[], $7::boolean[]) AS v(job_id, generation, definition, paused)
