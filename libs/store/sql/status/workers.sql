-- The open sessions of workers, with how many runs each has in hand; at most 1,000.
SELECT w.id, w.name, w.queues, w.slots, w.connected_at, coalesce(d.name, '') AS dispatcher,
       (SELECT count(*) FROM run_lease l WHERE l.session_id = w.id) AS running
FROM worker_session w LEFT JOIN dispatcher d ON d.id = w.dispatcher_id
WHERE w.ended_at IS NULL
ORDER BY w.name, w.id
LIMIT 1000
