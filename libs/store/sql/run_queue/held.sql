-- How many due runs a limit of their tenant or of their queue kept back within the last 5 s, 100,000 at most. One row.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), held AS MATERIALIZED ( -- NULL as a queue: all of the tenant's
    SELECT t.id AS tenant_id, NULL AS queue FROM tenant t, at WHERE t.held_through >= at.now - interval '5 seconds'
    UNION ALL
    SELECT l.tenant_id, l.queue FROM queue_limit l, at WHERE l.held_through >= at.now - interval '5 seconds'
)
SELECT count(*) AS runs FROM (
    SELECT FROM (SELECT DISTINCT tenant_id FROM held) t CROSS JOIN LATERAL (
        SELECT q.queue FROM run_queue q, at
        WHERE q.tenant_id = t.tenant_id AND q.due_at <= at.now
          AND EXISTS (SELECT FROM held h WHERE h.tenant_id = t.tenant_id AND (h.queue IS NULL OR h.queue = q.queue))
        LIMIT 100000
    ) q
    LIMIT 100000
) c
