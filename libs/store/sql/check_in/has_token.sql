-- Whether a check-in has the token whose hash is $1. No row: none has.
SELECT FROM check_in WHERE token_hash = $1 AND deleted_at IS NULL
