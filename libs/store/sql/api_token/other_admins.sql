-- How many tokens of administrators tenant $1 has beside $2 that count now.
SELECT count(*) AS others FROM api_token
WHERE tenant_id = $1 AND role = 'ADMIN' AND id <> $2 AND revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > (SELECT esc_now()))
