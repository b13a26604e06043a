-- The record of missed occurrences of job $1 that $2 lies in, with the name of the ticker that wrote it (NULL: not known).
-- No row: it was not missed, or is not settled yet.
SELECT m.first, m.last, m.count, m.cause::text AS cause, m.policy, m.outcome, m.term, m.recorded_at, t.name AS ticker
FROM misfire m
LEFT JOIN term t ON t.role = 'ticker' AND t.revision = m.term
WHERE m.job_id = $1 AND m.first <= $2 AND m.last >= $2
ORDER BY m.first DESC
LIMIT 1
