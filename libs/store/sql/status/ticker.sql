-- The newest leadership of the tickers; by time, because after etcd was rebuilt its revisions begin anew. $1: a cycle within so many milliseconds means that it leads. No row: none yet.
SELECT revision, name, pid, began_at, last_cycle_at, planned_through,
       ended_at IS NULL AND coalesce(last_cycle_at, began_at) > (SELECT esc_now()) - $1::bigint * interval '1 millisecond' AS leads
FROM term WHERE role = 'ticker' ORDER BY began_at DESC LIMIT 1
