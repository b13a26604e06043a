-- The same without the function, for who checks the count of rows. $1 guard key (text), $2 fencing token (bigint).
-- One row: go on. No row: a higher token has written; roll back.
INSERT INTO escapement_fence AS seen (guard_key, token, at)
VALUES ($1, $2, clock_timestamp())
ON CONFLICT (guard_key) DO UPDATE SET token = excluded.token, at = excluded.at
    WHERE seen.token <= excluded.token
RETURNING token
