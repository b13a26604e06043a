-- Takes up to $1 deliveries that are due, at most $2 a channel and none of the channels $3, and moves their next try $4
-- milliseconds ahead: a sender that dies only delays them. $5 has a tenant for each delivery that is being sent: a place
-- goes to the tenant that has the fewest then, none to one that has $6, and within a tenant to each channel in turn. What
-- is told of an alert waits until all before it was delivered or given up. A channel whose last try failed gets one at a
-- time, and none before its own wait is over. Chosen first and locked then, so that only what is taken is locked; what
-- somebody else has locked or taken since is left out. A row for each; `try` names this taking.
WITH waiting AS MATERIALIZED (
    SELECT d.id, d.next_try_at, c.tenant_id, row_number() OVER (PARTITION BY c.id ORDER BY d.next_try_at) AS turn
    FROM alert_channel c LEFT JOIN channel_failure f ON f.channel_id = c.id CROSS JOIN LATERAL (
        SELECT d.id, d.next_try_at FROM alert_delivery d
        WHERE d.channel_id = c.id AND d.delivered_at IS NULL AND d.given_up_at IS NULL
          AND d.next_try_at <= (SELECT esc_now())
          AND NOT EXISTS (SELECT FROM alert_delivery o
                          WHERE o.alert_id = d.alert_id AND o.channel_id = d.channel_id AND o.sequence < d.sequence
                            AND o.delivered_at IS NULL AND o.given_up_at IS NULL)
        ORDER BY d.next_try_at LIMIT CASE WHEN f.channel_id IS NULL THEN $2::bigint ELSE 1 END
    ) d
    WHERE c.id <> ALL($3::uuid[]) AND (f.next_try_at IS NULL OR f.next_try_at <= (SELECT esc_now()))
), placed AS MATERIALIZED (
    SELECT id, next_try_at,
           row_number() OVER (PARTITION BY tenant_id ORDER BY turn, next_try_at)
               + cardinality(array_positions($5::uuid[], tenant_id)) AS place
    FROM waiting
), due AS MATERIALIZED (
    SELECT id FROM alert_delivery
    WHERE id = ANY(ARRAY(SELECT id FROM placed WHERE place <= $6::bigint ORDER BY place, next_try_at LIMIT $1))
      AND delivered_at IS NULL AND given_up_at IS NULL AND next_try_at <= (SELECT esc_now())
    FOR UPDATE SKIP LOCKED
), now AS MATERIALIZED (
    SELECT esc_now() AS at
)
UPDATE alert_delivery d
SET tries = d.tries + 1, next_try_at = now.at + $4::bigint * interval '1 millisecond'
FROM due, now, alert_channel c LEFT JOIN channel_failure f ON f.channel_id = c.id
WHERE d.id = due.id AND c.id = d.channel_id
RETURNING d.id, d.alert_id, d.channel_id, d.body, d.tries AS try, d.created_at, now.at AS taken_at, c.name AS channel_name,
          c.tenant_id, c.kind, c.url, c.target, c.secret, c.deleted_at IS NOT NULL AS deleted,
          coalesce(f.failures, 0) AS failures
