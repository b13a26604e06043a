-- The oldest transaction of a client, by the cell's clock, and whose it is. Of other roles' a role without pg_read_all_stats
-- sees nothing. No row: none is open.
SELECT esc_now() - (clock_timestamp() - a.xact_start) AS since,
       format('%s (role %s, process %s)', coalesce(nullif(a.application_name, ''), 'an unnamed application'), a.usename, a.pid) AS who
FROM pg_stat_activity a
WHERE a.xact_start IS NOT NULL AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
  AND (a.backend_xid IS NOT NULL OR a.backend_xmin IS NOT NULL)
ORDER BY a.xact_start LIMIT 1
