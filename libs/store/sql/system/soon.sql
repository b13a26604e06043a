-- Who waits for jobs that have a deadline within the next hour: for each tenant and channel that they name (NULL: they name
-- none) how many such jobs there are, and five of them; and first all together, with a NULL tenant. At most 100,000 jobs are
-- looked at.
WITH soon AS MATERIALIZED (
    SELECT w.job_id, w.judge_at FROM watch_cursor w, (SELECT esc_now() AS at) now
    WHERE w.judge_at BETWEEN now.at AND now.at + interval '1 hour'
    ORDER BY w.judge_at LIMIT 100000
), job_soon AS MATERIALIZED (
    SELECT j.tenant_id, j.name, s.judge_at,
           jsonb_path_query_array(j.definition, '$.alert.channels[*] ? (@.type() == "string")') AS channels
    FROM soon s CROSS JOIN LATERAL (SELECT j.tenant_id, j.name, j.definition FROM job j WHERE j.id = s.job_id OFFSET 0) j
)
SELECT NULL::uuid AS tenant_id, NULL::text AS channel, count(*) AS jobs,
       coalesce((array_agg(name ORDER BY judge_at))[1:5], '{}') AS examples
FROM job_soon
UNION ALL
SELECT j.tenant_id, n.channel, count(*), (array_agg(j.name ORDER BY j.judge_at))[1:5]
FROM job_soon j LEFT JOIN LATERAL jsonb_array_elements_text(j.channels) AS n(channel) ON true
GROUP BY j.tenant_id, n.channel
ORDER BY tenant_id NULLS FIRST, channel
