-- Takes up to $1 deliveries that are due, at most $2 a channel and none of the channels $3, and moves their next try $4
-- milliseconds ahead: a sender that dies only delays them. A resolution waits until its opening was delivered or
-- given up. A row for each; `try` names this taking.
WITH due AS MATERIALIZED (
    SELECT d.id FROM alert_channel c CROSS JOIN LATERAL (
        SELECT d.id FROM alert_delivery d
        WHERE d.channel_id = c.id AND d.delivered_at IS NULL AND d.given_up_at IS NULL
          AND d.next_try_at <= (SELECT esc_now())
          AND (d.event = 'OPENED'
               OR coalesce((SELECT o.delivered_at IS NOT NULL OR o.given_up_at IS NOT NULL FROM alert_delivery o
                            WHERE o.alert_id = d.alert_id AND o.channel_id = d.channel_id AND o.event = 'OPENED'), true))
        ORDER BY d.next_try_at LIMIT $2
        FOR UPDATE OF d SKIP LOCKED
    ) d
    WHERE c.id <> ALL($3::uuid[])
    LIMIT $1
), now AS MATERIALIZED (
    SELECT esc_now() AS at
)
UPDATE alert_delivery d
SET tries = d.tries + 1, next_try_at = now.at + $4::bigint * interval '1 millisecond'
FROM due, now, alert_channel c
WHERE d.id = due.id AND c.id = d.channel_id
RETURNING d.id, d.alert_id, d.channel_id, d.event, d.body, d.tries AS try, d.created_at, now.at AS taken_at, c.name AS channel_name,
          c.url, c.secret, c.deleted_at IS NOT NULL AS deleted
