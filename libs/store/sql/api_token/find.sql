-- The token with the hash $1. No row: there is none, or it is revoked or expired.
SELECT id, tenant_id, name, role FROM api_token
WHERE hash = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > (SELECT esc_now()))
