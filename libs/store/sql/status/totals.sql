-- The clock, and how many jobs and open alerts tenant $1 has. One row.
SELECT esc_now() AS now,
       (SELECT count(*) FROM job WHERE tenant_id = $1 AND deleted_at IS NULL) AS jobs,
       (SELECT count(*) FROM alert WHERE tenant_id = $1 AND resolved_at IS NULL) AS open_alerts
