-- Takes up to $1 tests that wait, and deletes those that are older than an hour. A row for each that was taken; one whose
-- taker dies is not taken again: who asked has long given up.
WITH old AS (
    DELETE FROM channel_test WHERE created_at < (SELECT esc_now()) - interval '1 hour'
), due AS MATERIALIZED (
    SELECT id FROM channel_test
    WHERE taken_at IS NULL AND created_at >= (SELECT esc_now()) - interval '1 minute'
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
), now AS MATERIALIZED (
    SELECT esc_now() AS at
)
UPDATE channel_test t SET taken_at = now.at
FROM due, now, alert_channel c
WHERE t.id = due.id AND c.id = t.channel_id
RETURNING t.id, t.channel_id, now.at AS taken_at, c.name AS channel_name, c.kind, c.url, c.target, c.secret
