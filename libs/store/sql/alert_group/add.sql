-- Notes that channels are to be told of more jobs of a group; $1..$4 are arrays of one length: the alert that stands for it,
-- channel, how many jobs, up to five of them, separated by line ends.
INSERT INTO alert_group AS g (alert_id, channel_id, since, count, examples)
SELECT n.alert_id, n.channel_id, esc_now(), n.count, string_to_array(n.examples, E'\n')
FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[]) AS n(alert_id, channel_id, count, examples)
ORDER BY n.alert_id, n.channel_id
ON CONFLICT (alert_id, channel_id)
DO UPDATE SET count = g.count + excluded.count, examples = (g.examples || excluded.examples)[1:5]
