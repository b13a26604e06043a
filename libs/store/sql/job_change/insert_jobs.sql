-- Stores new jobs of tenant $1, created at $2, with their first revision's number; $3..$5 are arrays of one length:
-- id, name, definition. Fails on job_by_name when the tenant has a job of that name.
INSERT INTO job (id, tenant_id, generation, created_at, updated_at, name, definition)
SELECT n.id, $1, 1, $2, $2, n.name, n.definition
FROM unnest($3::uuid[], $4::text[], $5::jsonb[]) AS n(id, name, definition)
ORDER BY n.name
