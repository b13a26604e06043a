-- The hashes of all tokens whose bearers may work: neither revoked nor expired, at most 100,000. No row: there is none.
SELECT hash FROM api_token
WHERE role IN ('WORKER', 'ADMIN') AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > (SELECT esc_now()))
LIMIT 100000
