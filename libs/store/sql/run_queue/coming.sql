-- Of which jobs and generations runs become due in the queues $1, of the tenants $2 (NULL: of every tenant), after the
-- instant $3 (NULL: after now) and within $4 milliseconds from now; $5 runs at most. One row: the instant through which was
-- looked, and a job and a generation for each run, NULL when there is none.
-- Asks for each tenant and queue, as tenant/serve.sql says.
WITH at AS MATERIALIZED (
    SELECT coalesce($3::timestamptz, esc_now()) AS since, esc_now() + $4::bigint * interval '1 millisecond' AS horizon
), coming AS MATERIALIZED (
    SELECT f.job_id, f.generation
    FROM tenant t, (SELECT DISTINCT unnest($1::text[]) AS queue) d CROSS JOIN LATERAL (
        SELECT q.job_id, q.generation FROM run_queue q
        WHERE q.tenant_id = t.id AND q.queue = d.queue
          AND q.due_at > (SELECT since FROM at) AND q.due_at <= (SELECT horizon FROM at)
        LIMIT $5
    ) f
    WHERE $2::uuid[] IS NULL OR t.id = ANY($2::uuid[])
    LIMIT $5
)
SELECT (SELECT horizon FROM at) AS through, array_agg(job_id) AS jobs, array_agg(generation) AS generations FROM coming
