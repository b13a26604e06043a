-- Try $2 of delivery $1 failed with status $3 (NULL: no answer) and error $4. It is tried again $5 milliseconds from now,
-- or given up when $5 is NULL; its channel gets nothing for $6 milliseconds. No row: somebody else has taken it since.
WITH tried AS (
    INSERT INTO delivery_try (alert_id, channel_id, delivery_id, at, try, status, error)
    SELECT alert_id, channel_id, id, esc_now(), $2, $3, $4 FROM alert_delivery WHERE id = $1
), failed AS (
    UPDATE alert_delivery
    SET last_status = $3, last_error = $4, next_try_at = esc_now() + coalesce($5::bigint, 0) * interval '1 millisecond',
        given_up_at = CASE WHEN $5::bigint IS NULL THEN esc_now() END
    WHERE id = $1 AND tries = $2 AND delivered_at IS NULL AND given_up_at IS NULL
    RETURNING id, channel_id
), fails AS (
    INSERT INTO channel_failure (channel_id, failing_since, next_try_at, failures, last_status, last_error)
    SELECT channel_id, esc_now(), esc_now() + $6::bigint * interval '1 millisecond', 1, $3, $4 FROM failed
    ON CONFLICT (channel_id) DO UPDATE
    SET failures = channel_failure.failures + 1, next_try_at = excluded.next_try_at,
        last_status = excluded.last_status, last_error = excluded.last_error
)
SELECT id FROM failed
