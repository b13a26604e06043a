-- Locks the run of job $1 scheduled for $2 and says how it ended, and whether runs of its job exclude each other by the
-- definition that it executes. No row: there is none.
SELECT r.state::text AS state, r.attempt, v.definition ->> 'overlap' <> 'ALLOW' AS exclusive
FROM run r JOIN job_revision v ON v.job_id = r.job_id AND v.generation = r.generation
WHERE r.job_id = $1 AND r.scheduled_for = $2
FOR UPDATE OF r
