-- How many jobs have a deadline within the next hour, at most 100,000, and five of them, the next ones first. One row.
WITH soon AS MATERIALIZED (
    SELECT w.job_id, w.judge_at FROM watch_cursor w, (SELECT esc_now() AS at) now
    WHERE w.judge_at BETWEEN now.at AND now.at + interval '1 hour'
    ORDER BY w.judge_at LIMIT 100000
)
SELECT (SELECT count(*) FROM soon) AS jobs,
       ARRAY(SELECT j.name FROM (SELECT * FROM soon ORDER BY judge_at LIMIT 5) s JOIN job j ON j.id = s.job_id
             ORDER BY s.judge_at) AS examples
