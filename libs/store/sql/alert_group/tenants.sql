-- The names of the tenants $1.
SELECT id, name FROM tenant WHERE id = ANY($1::uuid[])
