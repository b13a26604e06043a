-- Deletes up to $2 alerts that were resolved before $1, the oldest first, and what was delivered of them. One that is open
-- stays, however old.
WITH old AS MATERIALIZED (
    SELECT id FROM alert WHERE resolved_at < $1 ORDER BY resolved_at LIMIT $2 FOR UPDATE SKIP LOCKED
), deliveries AS (
    DELETE FROM alert_delivery d USING old WHERE d.alert_id = old.id
)
DELETE FROM alert a USING old WHERE a.id = old.id
