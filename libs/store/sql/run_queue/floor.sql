-- The instant before which no row of the queues $1 is due, and never above now - 10 s: rows of transactions that have
-- not committed yet may still appear there. The full look, past every dead index entry; the claims remember it.
WITH RECURSIVE lane AS (
    (SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
     ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
    UNION ALL
    SELECT n.* FROM lane l CROSS JOIN LATERAL (
        SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
        WHERE (q.tenant_id, q.queue, q.priority) > (l.tenant_id, l.queue, l.priority)
        ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1
    ) n
)
SELECT least(min(l.due_at), esc_now() - interval '10 seconds') AS floor FROM lane l WHERE l.queue = ANY($1::text[])
