-- Puts deliveries into the outbox, to be sent at once; $1..$5 are arrays of one length: id, alert_id, channel_id, event,
-- body. An opening or resolution that is there already stays as it is; a repetition or acknowledgement is another one and
-- takes the earlier one's row, delivered or not: a channel that is down is not owed each of them.
INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, event, body)
SELECT n.id, n.alert_id, n.channel_id, now.at, now.at, n.event, n.body
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]) AS n(id, alert_id, channel_id, event, body),
     (SELECT esc_now() AS at) now
ORDER BY n.alert_id, n.channel_id
ON CONFLICT (alert_id, channel_id, event) DO UPDATE
SET id = excluded.id, created_at = excluded.created_at, next_try_at = excluded.next_try_at, body = excluded.body,
    sequence = DEFAULT, delivered_at = NULL, given_up_at = NULL, tries = 0, last_status = NULL, last_error = NULL
WHERE excluded.event IN ('REPEATED', 'ACKNOWLEDGED')
