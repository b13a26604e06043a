-- The clock, and how many jobs and open alerts there are.
SELECT esc_now() AS now,
       (SELECT count(*) FROM job WHERE deleted_at IS NULL) AS jobs,
       (SELECT count(*) FROM alert WHERE resolved_at IS NULL) AS open_alerts
