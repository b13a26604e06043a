-- The calendars of tenant $1 with the names $2, with their present dates, by name. No row for a name that is none.
SELECT c.name, c.version, c.created_at, c.updated_at, v.dates
FROM calendar c JOIN calendar_version v USING (tenant_id, name, version)
WHERE c.tenant_id = $1 AND c.deleted_at IS NULL AND c.name = ANY($2::text[])
ORDER BY c.name
