-- The newest leadership of the tickers. $1: a cycle within so many milliseconds means that it leads. No row: none yet.
SELECT revision, name, pid, began_at, last_cycle_at, planned_through,
       ended_at IS NULL AND coalesce(last_cycle_at, began_at) > (SELECT esc_now()) - $1::bigint * interval '1 millisecond' AS leads
FROM term WHERE role = 'ticker' ORDER BY revision DESC LIMIT 1
