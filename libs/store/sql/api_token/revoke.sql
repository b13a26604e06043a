-- Revokes the token $1. No row was written: it is revoked already.
UPDATE api_token SET revoked_at = esc_now() WHERE id = $1 AND revoked_at IS NULL
