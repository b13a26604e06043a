-- Puts deliveries into the outbox, to be sent at once; $1..$5 are arrays of one length: id, alert_id, channel_id, event,
-- body. Nothing for one that is there already.
INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, event, body)
SELECT n.id, n.alert_id, n.channel_id, now.at, now.at, n.event, n.body
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[]) AS n(id, alert_id, channel_id, event, body),
     (SELECT esc_now() AS at) now
ORDER BY n.alert_id, n.channel_id
ON CONFLICT (alert_id, channel_id, event) DO NOTHING
