-- The jobs of tenant $1 that name one of some calendars, by name, at most $3. $2: for each calendar, what the calendars
-- of a definition contain that excludes it, and that is limited to it. Seen without a lock, unless the calendars are
-- locked: look again once they are.
SELECT DISTINCT j.name, j.id
FROM unnest($2::jsonb[]) AS p(pattern)
JOIN job j ON j.definition -> 'calendars' @> p.pattern
WHERE j.tenant_id = $1 AND j.deleted_at IS NULL AND j.definition -> 'calendars' <> '{}'
ORDER BY j.name
LIMIT $3
