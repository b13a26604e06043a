-- Which of the tokens $1 do not count any more: revoked, expired, or gone. No row: all do.
SELECT held.id FROM unnest($1::uuid[]) AS held(id) LEFT JOIN api_token t ON t.id = held.id
WHERE t.id IS NULL OR t.revoked_at IS NOT NULL OR t.expires_at <= (SELECT esc_now())
