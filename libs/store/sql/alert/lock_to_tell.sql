-- Locks up to $1 alerts of which there is something to tell, what a person did, and as many that are to be told again because
-- they are open still. No row: nothing.
WITH done AS MATERIALIZED (
    SELECT id FROM alert WHERE to_tell IS NOT NULL ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
), due AS MATERIALIZED (
    SELECT id FROM alert
    WHERE resolved_at IS NULL AND next_repeat_at <= (SELECT esc_now()) AND to_tell IS NULL
    ORDER BY next_repeat_at LIMIT $1 FOR UPDATE SKIP LOCKED
)
SELECT id FROM done UNION ALL SELECT id FROM due
