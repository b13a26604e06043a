-- Queues whose first run has been due for $1 milliseconds, and which no open session with a dispatcher that was renewed
-- within $2 milliseconds serves: tenant, queue, since when, and how many runs are due, at most 10,000. At most 100 rows. One
-- look by index for each tenant and queue, however many runs wait.
WITH RECURSIVE now AS MATERIALIZED (
    SELECT esc_now() AS at
), first AS (
    (SELECT q.tenant_id, q.queue, q.due_at FROM run_queue q ORDER BY q.tenant_id, q.queue, q.due_at LIMIT 1)
    UNION ALL
    SELECT n.tenant_id, n.queue, n.due_at FROM first f CROSS JOIN LATERAL (
        SELECT q.tenant_id, q.queue, q.due_at FROM run_queue q
        WHERE (q.tenant_id, q.queue) > (f.tenant_id, f.queue)
        ORDER BY q.tenant_id, q.queue, q.due_at LIMIT 1
    ) n
)
SELECT t.name AS tenant, f.queue, f.due_at AS since,
       (SELECT count(*) FROM (SELECT FROM run_queue q
                              WHERE q.tenant_id = f.tenant_id AND q.queue = f.queue AND q.due_at <= now.at
                              LIMIT 10000) due) AS runs
FROM first f CROSS JOIN now JOIN tenant t ON t.id = f.tenant_id
WHERE f.due_at <= now.at - $1::bigint * interval '1 millisecond'
  AND NOT EXISTS (SELECT FROM worker_session w JOIN dispatcher d ON d.id = w.dispatcher_id
                  WHERE w.ended_at IS NULL AND f.queue = ANY(w.queues) AND (w.tenant_id = f.tenant_id OR w.tenant_id IS NULL)
                    AND d.renewed_at > now.at - $2::bigint * interval '1 millisecond')
ORDER BY f.due_at LIMIT 100
