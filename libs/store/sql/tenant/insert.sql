-- Stores the tenant $1 named $2.
INSERT INTO tenant (id, name, created_at) VALUES ($1, $2, $3)
