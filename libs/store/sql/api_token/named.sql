-- The tokens of tenant $1, with those of every tenant if $2, that have the id $3, or the name $4 and are not revoked: at most 2.
-- No row: there is none.
SELECT id, tenant_id, name, role, prefix, created_at, created_by, expires_at, last_used_at, revoked_at FROM api_token
WHERE (tenant_id = $1 OR ($2 AND tenant_id IS NULL)) AND (id = $3 OR (name = $4 AND revoked_at IS NULL))
ORDER BY id LIMIT 2
