-- What each queue holds of tenant $1: planned, waiting (due, held by a pause, or parked), running, retrying. No row: nothing.
SELECT queue, sum(planned)::bigint AS planned, sum(waiting)::bigint AS waiting, sum(running)::bigint AS running,
       sum(retrying)::bigint AS retrying
FROM (
    SELECT queue, count(*) FILTER (WHERE due_at > now.at AND due_at < 'infinity') AS planned,
           count(*) FILTER (WHERE due_at <= now.at OR due_at = 'infinity') AS waiting,
           0 AS running, 0 AS retrying
    FROM run_queue, (SELECT esc_now() AS at) now WHERE tenant_id = $1 AND attempt = 0 GROUP BY queue
    UNION ALL
    SELECT queue, 0, count(*), 0, 0 FROM run_parked WHERE tenant_id = $1 GROUP BY queue
    UNION ALL
    SELECT queue, 0, 0, count(session_id), count(*) - count(session_id) FROM run_lease WHERE tenant_id = $1
    GROUP BY queue
) q
GROUP BY queue ORDER BY queue
