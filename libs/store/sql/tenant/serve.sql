-- Chooses the tenants that a claim serves, at most 64 that have due rows, and locks those that have a limit: the
-- claim, in the next statement, counts what they have and nobody else starts a run of theirs meanwhile. One that
-- another claim holds is left out, so that nobody waits; who ends runs locks no tenant. Not FOR UPDATE: that would leave
-- out a tenant in which somebody defines jobs, who holds its key.
--
-- Asks for each tenant and queue: to walk from one to the next in the index would step over every row of other queues that
-- is older than $4, and over those that are gone and that an old snapshot still sees.
-- $1, $2: spans of tenants, each after the one and through the other, in the order to serve them. $3: the queues.
-- $4: no row is due before.
-- The answer goes to the next statement as settings that end with the transaction, so that the batch needs no round trip. So
-- does the plan's mode: to plan a claim takes twice as long as to carry it out, and no plan depends on the parameters.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), due AS MATERIALIZED (
    SELECT d.id AS tenant_id, row_number() OVER () AS place
    FROM (
        SELECT t.id FROM unnest($1::uuid[], $2::uuid[]) AS span(after, through) CROSS JOIN LATERAL (
            SELECT t.id FROM tenant t
            WHERE t.id > span.after AND t.id <= span.through AND (
                SELECT true FROM unnest($3::text[]) AS d(queue) CROSS JOIN LATERAL (
                    SELECT FROM run_queue q
                    WHERE q.tenant_id = t.id AND q.queue = d.queue AND q.due_at >= $4 AND q.due_at <= (SELECT now FROM at) LIMIT 1
                ) q LIMIT 1)
            ORDER BY t.id LIMIT 64
        ) t
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
SELECT set_config('plan_cache_mode', 'force_generic_plan', true),
       set_config('escapement.served', coalesce((SELECT string_agg(tenant_id::text, ',' ORDER BY place) FROM due
           WHERE tenant_id NOT IN (SELECT id FROM limited EXCEPT SELECT id FROM locked)), ''), true),
       set_config('escapement.locked', coalesce((SELECT string_agg(id::text, ',') FROM locked), ''), true),
       (SELECT count(*) FROM due) AS due
