-- How late first attempts were accepted within the last five minutes, in milliseconds, finished runs and open ones.
-- Rows are looked for among those scheduled within the last ten, by the block range index of `run`.
WITH accepted AS (
    SELECT extract(epoch FROM accepted_at - due_at) * 1000 AS ms FROM run
    WHERE scheduled_for > (SELECT esc_now()) - interval '10 minutes' AND scheduled_for <= (SELECT esc_now())
      AND accepted_at > (SELECT esc_now()) - interval '5 minutes' AND attempt = 1
    UNION ALL
    SELECT extract(epoch FROM l.accepted_at - r.due_at) * 1000 FROM run_lease l
    JOIN run r ON r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for
    WHERE r.scheduled_for > (SELECT esc_now()) - interval '10 minutes' AND r.scheduled_for <= (SELECT esc_now())
      AND l.accepted_at > (SELECT esc_now()) - interval '5 minutes' AND l.attempt = 1
)
SELECT count(*) AS runs,
       coalesce(percentile_cont(0.5) WITHIN GROUP (ORDER BY ms::float8), 0) AS p50_ms,
       coalesce(percentile_cont(0.99) WITHIN GROUP (ORDER BY ms::float8), 0) AS p99_ms,
       coalesce(max(ms::float8), 0) AS max_ms
FROM accepted
