-- What was told to channel $1 before the delivery with sequence $2 (NULL: from the newest on), the newest first, at most $3.
-- No row: no more.
SELECT d.id, d.alert_id, d.event, d.sequence, d.created_at, d.delivered_at, d.given_up_at, d.next_try_at, d.tries,
       d.last_status, d.last_error
FROM alert_delivery d
WHERE d.channel_id = $1 AND d.sequence < coalesce($2::bigint, 9223372036854775807)
ORDER BY d.sequence DESC LIMIT $3
