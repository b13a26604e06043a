-- Locks the check-in whose token has the hash $1: its reports come one after the other. No row: there is none.
SELECT id FROM check_in WHERE token_hash = $1 AND deleted_at IS NULL FOR UPDATE
