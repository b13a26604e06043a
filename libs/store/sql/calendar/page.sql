-- The calendars of tenant $1 whose name comes after $2, by name, at most $3. Dates are NULL from the one on that would
-- make them more than $4 together, but never in the first. No row: no more.
WITH page AS MATERIALIZED (
    SELECT c.name, c.version, c.created_at, c.updated_at, v.dates,
           sum(cardinality(v.dates)) OVER (ORDER BY c.name) AS through,
           row_number() OVER (ORDER BY c.name) AS place
    FROM calendar c JOIN calendar_version v USING (tenant_id, name, version)
    WHERE c.tenant_id = $1 AND c.deleted_at IS NULL AND c.name > $2
    ORDER BY c.name
    LIMIT $3
)
SELECT name, version, created_at, updated_at, CASE WHEN through <= $4 OR place = 1 THEN dates END AS dates
FROM page ORDER BY name
