-- The next $2 jobs after $1, in order, and whether their plans depend on a timezone: not in UTC, nor of one that is deleted or
-- paused. An @at may name a zone of its own. No row: there are no more.
SELECT j.id, j.deleted_at IS NULL AND j.paused_at IS NULL
             AND (j.definition ->> 'timezone' <> 'UTC' OR j.definition ->> 'schedule' ILIKE '@at%') AS zoned
FROM job j WHERE j.id > $1 ORDER BY j.id LIMIT $2
