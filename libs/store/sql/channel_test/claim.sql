-- Takes up to $1 tests that wait, of each tenant no more than $2 that have not ended, and deletes those that are older than
-- an hour. A row for each that was taken; one whose taker dies is not taken again: who asked has long given up.
WITH old AS (
    DELETE FROM channel_test WHERE created_at < (SELECT esc_now()) - interval '1 hour'
), placed AS MATERIALIZED (
    SELECT t.id, row_number() OVER (PARTITION BY c.tenant_id ORDER BY t.taken_at NULLS LAST, t.created_at) AS place
    FROM channel_test t JOIN alert_channel c ON c.id = t.channel_id
    WHERE t.ended_at IS NULL AND t.created_at >= (SELECT esc_now()) - interval '1 minute'
), due AS MATERIALIZED (
    SELECT id FROM channel_test
    WHERE taken_at IS NULL AND created_at >= (SELECT esc_now()) - interval '1 minute'
      AND id IN (SELECT id FROM placed WHERE place <= $2)
    ORDER BY created_at LIMIT $1 FOR UPDATE SKIP LOCKED
), now AS MATERIALIZED (
    SELECT esc_now() AS at
)
UPDATE channel_test t SET taken_at = now.at
FROM due, now, alert_channel c
WHERE t.id = due.id AND c.id = t.channel_id
RETURNING t.id, t.channel_id, now.at AS taken_at, c.name AS channel_name, c.kind, c.url, c.target, c.secret
