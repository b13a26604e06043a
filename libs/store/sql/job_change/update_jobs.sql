-- Puts definitions in force at $1; $2..$5 are arrays of one length: id, the new generation, name, definition. The
-- caller holds the rows' locks. Fails on job_by_name when the tenant has another job of that name.
UPDATE job SET generation = c.generation, name = c.name, definition = c.definition, updated_at = $1, broken = NULL
FROM unnest($2::uuid[], $3::bigint[], $4::text[], $5::jsonb[]) AS c(id, generation, name, definition)
WHERE job.id = c.id
