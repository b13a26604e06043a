-- How many jobs tenant $1 has, counted to $2 at most.
SELECT count(*) AS jobs FROM (SELECT FROM job WHERE tenant_id = $1 AND deleted_at IS NULL LIMIT $2) j
