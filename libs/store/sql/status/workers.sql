-- The open sessions of workers that serve tenant $1, some of them others too, with how many runs each has in hand; at
-- most 1,000. No row: nobody works for it.
SELECT w.id, w.name, w.queues, w.slots, w.connected_at, coalesce(d.name, '') AS dispatcher,
       (SELECT count(*) FROM run_lease l WHERE l.session_id = w.id) AS running
FROM worker_session w LEFT JOIN dispatcher d ON d.id = w.dispatcher_id
WHERE w.ended_at IS NULL AND (w.tenant_id = $1 OR w.tenant_id IS NULL)
ORDER BY w.name, w.id
LIMIT 1000
