-- Gives the locked check-in $1 the token with the hash $2 at $3; the one before is nobody's from then on.
UPDATE check_in SET token_hash = $2, updated_at = $3 WHERE id = $1
