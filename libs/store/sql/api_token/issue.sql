-- Stores a token made by $8: id $1, tenant $2 (NULL: every tenant, workers only), name $3, role $4, prefix $5, hash $6, expiry
-- $7 (NULL: none). Whoever calls holds the tenant's limits, so that no other token gets the name meanwhile.
INSERT INTO api_token (id, tenant_id, name, role, prefix, hash, expires_at, created_by)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
