-- The instant before which no row of the queues $1 is due, when none is due before $2; and never above now - 10 s: rows of
-- transactions that have not committed yet may still appear there. From the beginning of time on it steps past every dead
-- index entry; the claims remember it. Asks for each tenant and queue, as tenant/serve.sql says.
WITH at AS MATERIALIZED (
    SELECT esc_now() - interval '10 seconds' AS most
)
SELECT least((SELECT most FROM at), min(f.due_at)) AS floor
FROM tenant t, (SELECT DISTINCT unnest($1::text[]) AS queue) d CROSS JOIN LATERAL (
    SELECT q.due_at FROM run_queue q
    WHERE q.tenant_id = t.id AND q.queue = d.queue AND q.due_at >= $2 AND q.due_at < (SELECT most FROM at)
    ORDER BY q.due_at LIMIT 1
) f
