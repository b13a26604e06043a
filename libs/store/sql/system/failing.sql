-- Channels of which a delivery was tried $1 times or more in vain, and that have received nothing since it was made: since
-- when, how many deliveries wait, what the last try met. At most 100. No row: all receive.
SELECT c.id::text AS id, c.name, c.tenant_id, f.since, f.deliveries, coalesce(f.error, '') AS error
FROM (
    SELECT d.channel_id, min(d.created_at) AS since, count(*) AS deliveries,
           (array_agg(d.last_error ORDER BY d.tries DESC))[1] AS error
    FROM alert_delivery d
    WHERE d.delivered_at IS NULL AND d.given_up_at IS NULL
    GROUP BY d.channel_id HAVING max(d.tries) >= $1
) f
JOIN alert_channel c ON c.id = f.channel_id
WHERE c.deleted_at IS NULL
  AND NOT EXISTS (SELECT FROM alert_delivery d WHERE d.channel_id = c.id AND d.delivered_at >= f.since)
ORDER BY f.since LIMIT 100
