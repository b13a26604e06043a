-- Jobs that the planner can't use, and why; at most 100, the oldest definition first. No row: all can be planned.
SELECT j.id::text AS id, j.name, j.tenant_id, j.updated_at AS since, coalesce(j.broken, 'its definition is not usable') AS why
FROM job_cursor c JOIN job j ON j.id = c.job_id
WHERE c.broken AND j.deleted_at IS NULL
ORDER BY j.updated_at LIMIT 100
