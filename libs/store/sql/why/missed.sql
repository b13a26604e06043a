-- The record of missed occurrences of job $1 that $2 lies in, with the name of the ticker that wrote it (NULL: not known):
-- records of a job don't overlap, so that it is the last one to begin by then. No row: it was not missed, or is not settled
-- yet.
SELECT m.first, m.last, m.count, m.cause::text AS cause, m.policy, m.outcome, m.term, m.recorded_at, t.name AS ticker
FROM (SELECT * FROM misfire WHERE job_id = $1 AND first <= $2 ORDER BY first DESC LIMIT 1) m
LEFT JOIN term t ON t.role = 'ticker' AND t.revision = m.term
WHERE m.last >= $2
