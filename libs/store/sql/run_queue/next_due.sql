-- When there is something to claim: in the queues $1, of the tenants $2 (NULL: of every tenant), due at $3 or later and
-- within $4 milliseconds from now. One row: `overdue` is true when a row is due already (others may be at it), `wait_ms` is
-- the time until the next one becomes due, NULL when none does. What is held is due at infinity, which is never.
-- Asks for each tenant and queue, as tenant/serve.sql says.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now, esc_now() + $4::bigint * interval '1 millisecond' AS horizon
), first AS MATERIALIZED (
    SELECT t.id AS tenant_id, d.queue, f.due_at
    FROM tenant t, (SELECT DISTINCT unnest($1::text[]) AS queue) d CROSS JOIN LATERAL (
        SELECT q.due_at FROM run_queue q
        WHERE q.tenant_id = t.id AND q.queue = d.queue AND q.due_at >= $3 AND q.due_at <= (SELECT horizon FROM at)
        ORDER BY q.due_at LIMIT 1
    ) f
    WHERE $2::uuid[] IS NULL OR t.id = ANY($2::uuid[])
)
SELECT coalesce(bool_or(f.due_at <= at.now), false) AS overdue,
       ceil(extract(epoch FROM min(CASE WHEN f.due_at > at.now THEN f.due_at ELSE n.due_at END - at.now)) * 1000)::bigint
           AS wait_ms
FROM first f CROSS JOIN at LEFT JOIN LATERAL (
    SELECT q.due_at FROM run_queue q
    WHERE f.due_at <= at.now AND q.tenant_id = f.tenant_id AND q.queue = f.queue
      AND q.due_at > (SELECT now FROM at) AND q.due_at <= (SELECT horizon FROM at)
    ORDER BY q.due_at LIMIT 1
) n ON true
