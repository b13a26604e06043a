-- Try $2 of delivery $1 failed with HTTP status $3 (NULL: no answer) and error $4. It is tried again $5 milliseconds from
-- now, or given up when $5 is NULL. No row: somebody else has taken it since.
UPDATE alert_delivery
SET last_status = $3, last_error = $4, next_try_at = esc_now() + coalesce($5::bigint, 0) * interval '1 millisecond',
    given_up_at = CASE WHEN $5::bigint IS NULL THEN esc_now() END
WHERE id = $1 AND tries = $2 AND delivered_at IS NULL AND given_up_at IS NULL
RETURNING id
