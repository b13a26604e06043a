-- The tokens of tenant $1, with those of every tenant if $2, by name: at most $6 after the name $4 and id $5, the revoked ones
-- only if $3.
SELECT id, tenant_id, name, role, prefix, created_at, created_by, expires_at, last_used_at, revoked_at FROM api_token
WHERE (tenant_id = $1 OR ($2 AND tenant_id IS NULL)) AND ($3 OR revoked_at IS NULL) AND (name, id) > ($4, $5)
ORDER BY name, id LIMIT $6
