-- What each queue holds of tenant $1: planned, waiting (due, held by a pause, or parked), running, retrying; `held`, those of
-- the waiting that a limit of the tenant or the queue kept back within the last 5 s, and since when. No row: nothing.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), held AS MATERIALIZED ( -- NULL as a queue: all of them
    SELECT NULL AS queue, t.held_from FROM tenant t, at
    WHERE t.id = $1 AND t.held_through >= at.now - interval '5 seconds'
    UNION ALL
    SELECT l.queue, l.held_from FROM queue_limit l, at
    WHERE l.tenant_id = $1 AND l.held_through >= at.now - interval '5 seconds'
), total AS (
    SELECT queue, sum(planned)::bigint AS planned, sum(due + apart)::bigint AS waiting, sum(due)::bigint AS due,
           sum(running)::bigint AS running, sum(retrying)::bigint AS retrying
    FROM (
        SELECT queue, count(*) FILTER (WHERE due_at > at.now AND due_at < 'infinity') AS planned,
               count(*) FILTER (WHERE due_at <= at.now) AS due, count(*) FILTER (WHERE due_at = 'infinity') AS apart,
               0 AS running, 0 AS retrying
        FROM run_queue, at WHERE tenant_id = $1 AND attempt = 0 GROUP BY queue
        UNION ALL
        SELECT queue, 0, 0, count(*), 0, 0 FROM run_parked WHERE tenant_id = $1 GROUP BY queue
        UNION ALL
        SELECT queue, 0, 0, 0, count(session_id), count(*) - count(session_id) FROM run_lease WHERE tenant_id = $1
        GROUP BY queue
    ) q
    GROUP BY queue
)
SELECT t.queue, t.planned, t.waiting, t.running, t.retrying,
       CASE WHEN h.held_from IS NULL THEN 0 ELSE t.due END AS held, CASE WHEN t.due > 0 THEN h.held_from END AS held_from
FROM total t LEFT JOIN LATERAL (
    SELECT min(h.held_from) AS held_from FROM held h WHERE h.queue IS NULL OR h.queue = t.queue
) h ON true
ORDER BY t.queue
