-- The revisions of job $1 before generation $2, the latest first, at most $3. No row: no more.
SELECT generation, in_force_from, action, author, reason, paused, definition
FROM job_revision
WHERE job_id = $1 AND generation < $2
ORDER BY generation DESC
LIMIT $3
