-- How many check-ins tenant $1 has, counted to $2 at most.
SELECT count(*) AS found FROM (SELECT FROM check_in WHERE tenant_id = $1 AND deleted_at IS NULL LIMIT $2) c
