-- Lets tenant $1, whose row the caller has written in the statement before, have at most $3 runs of the queues $2 with
-- workers at a time, and as many as it likes of any other. No limit that stays as it is is touched.
WITH wanted AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::integer[]) AS w(queue, max_running)
), dropped AS (
    DELETE FROM queue_limit l WHERE l.tenant_id = $1 AND l.queue <> ALL ($2::text[])
)
INSERT INTO queue_limit (tenant_id, queue, max_running) SELECT $1, w.queue, w.max_running FROM wanted w ORDER BY w.queue
ON CONFLICT (tenant_id, queue) DO UPDATE SET max_running = excluded.max_running
WHERE queue_limit.max_running <> excluded.max_running
