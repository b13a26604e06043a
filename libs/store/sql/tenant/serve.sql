-- Chooses the tenants that a claim serves, at most 64 that have due rows, and locks those that have a limit: the
-- claim, in the next statement, counts what they have and nobody else starts a run of theirs meanwhile. One that
-- another claim holds is left out, so that nobody waits; who ends runs locks no tenant. Not FOR UPDATE: that would leave
-- out a tenant in which somebody defines jobs, who holds its key.
--
-- $1, $2: spans of tenants, each after the one and through the other, in the order to serve them. $3: the queues.
-- $4: no row is due before.
-- The answer goes to the next statement as settings that end with the transaction, so that the batch needs no round trip.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), due AS MATERIALIZED (
    SELECT d.tenant_id, row_number() OVER () AS place
    FROM (
        SELECT w.tenant_id
        FROM unnest($1::uuid[], $2::uuid[]) AS span(after, through) CROSS JOIN LATERAL (
            WITH RECURSIVE walk AS (
                (SELECT q.tenant_id, q.queue, q.priority, q.queue = ANY($3::text[]) AND q.due_at <= (SELECT now FROM at) AS due
                 FROM run_queue q
                 WHERE q.tenant_id > span.after AND q.tenant_id <= span.through AND q.due_at >= $4
                 ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
                UNION ALL
                SELECT n.* FROM walk w CROSS JOIN LATERAL (
                    (SELECT q.tenant_id, q.queue, q.priority, q.queue = ANY($3::text[]) AND q.due_at <= (SELECT now FROM at)
                     FROM run_queue q
                     WHERE NOT w.due AND (q.tenant_id, q.queue, q.priority) > (w.tenant_id, w.queue, w.priority)
                       AND q.tenant_id <= span.through AND q.due_at >= $4
                     ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
                    UNION ALL -- the rest of a tenant that is served is the claim's to find
                    (SELECT q.tenant_id, q.queue, q.priority, q.queue = ANY($3::text[]) AND q.due_at <= (SELECT now FROM at)
                     FROM run_queue q
                     WHERE w.due AND q.tenant_id > w.tenant_id AND q.tenant_id <= span.through AND q.due_at >= $4
                     ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
                ) n
            )
            SELECT tenant_id FROM walk WHERE due
        ) w
        LIMIT 64
    ) d
), limited AS MATERIALIZED (
    SELECT t.id FROM due d JOIN tenant t ON t.id = d.tenant_id
    WHERE t.max_running IS NOT NULL OR t.max_starts_per_second IS NOT NULL
       OR EXISTS (SELECT FROM queue_limit l WHERE l.tenant_id = t.id)
), locked AS MATERIALIZED (
    SELECT t.id FROM tenant t WHERE t.id = ANY(ARRAY(SELECT id FROM limited))
    ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT set_config('escapement.served', coalesce((SELECT string_agg(tenant_id::text, ',' ORDER BY place) FROM due
           WHERE tenant_id NOT IN (SELECT id FROM limited EXCEPT SELECT id FROM locked)), ''), true),
       set_config('escapement.locked', coalesce((SELECT string_agg(id::text, ',') FROM locked), ''), true),
       (SELECT count(*) FROM due) AS due
