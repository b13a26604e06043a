-- Notes that the tokens $1 were used, of each once a minute at most. One that somebody else holds is left for the next time.
UPDATE api_token SET last_used_at = esc_now()
WHERE id IN (
    SELECT t.id FROM api_token t
    WHERE t.id = ANY ($1) AND (t.last_used_at IS NULL OR t.last_used_at < (SELECT esc_now()) - interval '1 minute')
    ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
)
