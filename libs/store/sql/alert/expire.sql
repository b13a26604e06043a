-- Deletes up to $2 alerts that were resolved before $1, the oldest first, and what was delivered of them. One that is open
-- stays, however old; of what was tried to tell of it, up to $2 tries from before $1 go.
WITH old AS MATERIALIZED (
    SELECT id FROM alert WHERE resolved_at < $1 ORDER BY resolved_at LIMIT $2 FOR UPDATE SKIP LOCKED
), deliveries AS (
    DELETE FROM alert_delivery d USING old WHERE d.alert_id = old.id
), old_tries AS MATERIALIZED (
    SELECT alert_id, channel_id, sequence FROM delivery_try WHERE at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
), tries AS (
    DELETE FROM delivery_try t USING old_tries o
    WHERE t.alert_id = o.alert_id AND t.channel_id = o.channel_id AND t.sequence = o.sequence
)
DELETE FROM alert a USING old WHERE a.id = old.id
