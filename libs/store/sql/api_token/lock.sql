-- Locks the tokens of administrators of tenant $1 that are not revoked, and the token $2: who revokes one of them looks next
-- whether another is left.
SELECT id FROM api_token
WHERE id = $2 OR (tenant_id = $1 AND role = 'ADMIN' AND revoked_at IS NULL)
ORDER BY id FOR NO KEY UPDATE
