-- Takes up to $1 delivered openings that are to be told again by now, and puts the next time $2 milliseconds ahead; those
-- whose alert has ended or whose channel was deleted are never told again. A row for each that is to be told.
WITH due AS MATERIALIZED (
    SELECT id FROM alert_delivery WHERE refresh_at <= (SELECT esc_now()) ORDER BY refresh_at LIMIT $1
    FOR UPDATE SKIP LOCKED
), now AS MATERIALIZED (
    SELECT esc_now() AS at
), moved AS (
    UPDATE alert_delivery d
    SET refresh_at = CASE WHEN a.resolved_at IS NULL AND c.deleted_at IS NULL
                          THEN now.at + $2::bigint * interval '1 millisecond' END
    FROM due, now, alert a, alert_channel c
    WHERE d.id = due.id AND a.id = d.alert_id AND c.id = d.channel_id
    RETURNING d.channel_id, d.body, d.refresh_at, now.at AS taken_at, c.name AS channel_name, c.kind, c.url, c.target, c.secret
)
SELECT * FROM moved WHERE refresh_at IS NOT NULL ORDER BY channel_id
