-- The other dispatchers than $1 that have open sessions, with their renewal counters; -1 for one that has no row.
SELECT s.dispatcher_id, coalesce(d.counter, -1) AS counter
FROM (SELECT DISTINCT dispatcher_id FROM worker_session WHERE ended_at IS NULL AND dispatcher_id <> $1) s
LEFT JOIN dispatcher d ON d.id = s.dispatcher_id
