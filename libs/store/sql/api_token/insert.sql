-- Stores a token: id $1, tenant $2 (NULL: every tenant, workers only), name $3, role $4, prefix $5, hash $6.
INSERT INTO api_token (id, tenant_id, name, role, prefix, hash) VALUES ($1, $2, $3, $4, $5, $6)
