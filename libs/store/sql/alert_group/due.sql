-- Locks up to $2 channels that are to be told of a group now, in order: it has been gathering for $1 milliseconds, and the
-- channel was not told of the trouble itself, or that has been over for a minute and the group still is not. A row for each.
SELECT g.alert_id, g.channel_id, g.count, g.examples, a.kind, a.tenant_id, a.opened_at, now.at
FROM alert_group g JOIN alert a ON a.id = g.alert_id, (SELECT esc_now() AS at) now
WHERE g.told_at IS NULL AND a.resolved_at IS NULL AND g.since <= now.at - $1::bigint * interval '1 millisecond'
  AND NOT EXISTS (SELECT FROM alert s JOIN alert_delivery d ON d.alert_id = s.id
                  WHERE s.subject = 'SYSTEM' AND s.kind = a.kind AND s.system_key <> 'jobs'
                    AND (s.resolved_at IS NULL OR s.resolved_at > now.at - interval '1 minute')
                    AND d.channel_id = g.channel_id AND d.event = 'OPENED')
ORDER BY g.alert_id, g.channel_id LIMIT $2
FOR UPDATE OF g
