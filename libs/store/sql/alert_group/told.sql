-- The channels are told of their groups; $1, $2 are arrays of one length: alert, channel.
UPDATE alert_group g SET told_at = esc_now() FROM unnest($1::uuid[], $2::uuid[]) AS n(alert_id, channel_id)
WHERE g.alert_id = n.alert_id AND g.channel_id = n.channel_id
