-- When there is something to claim: in the queues $1, of the tenants $2 (NULL: of every tenant), due at $3 or later.
-- One row: `overdue` is true when a row is due already (others may be at it), `wait_ms` is the time until the next
-- one becomes due, NULL when none is queued. What is held is due at infinity, which is never.
WITH RECURSIVE at AS MATERIALIZED (
    SELECT esc_now() AS now
), lane AS (
    (SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
     WHERE q.due_at >= $3 ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
    UNION ALL
    SELECT n.* FROM lane l CROSS JOIN LATERAL (
        SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
        WHERE (q.tenant_id, q.queue, q.priority) > (l.tenant_id, l.queue, l.priority) AND q.due_at >= $3
        ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1
    ) n
)
SELECT coalesce(bool_or(l.due_at <= (SELECT now FROM at)), false) AS overdue,
       ceil(extract(epoch FROM min(f.due_at) - (SELECT now FROM at)) * 1000)::bigint AS wait_ms
FROM lane l LEFT JOIN LATERAL (
    SELECT q.due_at FROM run_queue q
    WHERE q.tenant_id = l.tenant_id AND q.queue = l.queue AND q.priority = l.priority AND q.due_at > (SELECT now FROM at)
      AND q.due_at < 'infinity'
    ORDER BY q.due_at LIMIT 1
) f ON true
WHERE l.queue = ANY($1::text[]) AND ($2::uuid[] IS NULL OR l.tenant_id = ANY($2::uuid[]))
