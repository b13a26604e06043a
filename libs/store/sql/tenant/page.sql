-- At most $2 tenants by name, those after the name $1.
SELECT t.id, t.name, t.created_at FROM tenant t WHERE t.name > $1 ORDER BY t.name LIMIT $2
