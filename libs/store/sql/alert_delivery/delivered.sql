-- Delivery $1 was received at its try $4 with status $2 (NULL: there was nothing to be sent): a fact, whoever has taken it
-- since. It is to be told again in $3 milliseconds while its alert is open, or never when $3 is NULL. Its channel works.
-- No row: it was recorded before.
WITH tried AS (
    INSERT INTO delivery_try (alert_id, channel_id, delivery_id, at, try, status)
    SELECT alert_id, channel_id, id, esc_now(), $4, $2 FROM alert_delivery WHERE id = $1
), delivered AS (
    UPDATE alert_delivery
    SET delivered_at = esc_now(), given_up_at = NULL, last_status = $2, last_error = NULL,
        refresh_at = esc_now() + $3::bigint * interval '1 millisecond'
    WHERE id = $1 AND delivered_at IS NULL
    RETURNING id, channel_id
), works AS (
    DELETE FROM channel_failure f USING delivered WHERE f.channel_id = delivered.channel_id
)
SELECT id FROM delivered
