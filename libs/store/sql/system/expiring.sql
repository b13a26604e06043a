-- API tokens that were made to last two weeks or more, and expire within a week or have done so within the last; at most
-- 100, the first to expire first. No row: none does.
SELECT id::text AS id, name, tenant_id, expires_at FROM api_token, (SELECT esc_now() AS at) now
WHERE revoked_at IS NULL AND expires_at BETWEEN now.at - interval '7 days' AND now.at + interval '7 days'
  AND expires_at - created_at >= interval '14 days'
ORDER BY expires_at LIMIT 100
