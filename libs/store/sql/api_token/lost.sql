-- Which of the tokens $1 do not count any more: revoked, or expired. No row: all do.
SELECT t.id FROM unnest($1::uuid[]) AS held(id) JOIN api_token t ON t.id = held.id
WHERE t.revoked_at IS NOT NULL OR t.expires_at <= (SELECT esc_now())
