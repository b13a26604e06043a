-- The troubles that explain why jobs have no success, and are open or have been over for less than a minute: kind, and what
-- it is about. No row: none is.
SELECT DISTINCT kind, system_key FROM alert
WHERE (resolved_at IS NULL OR resolved_at > (SELECT esc_now()) - interval '1 minute')
  AND subject = 'SYSTEM' AND kind IN ('NO_TICKER', 'NO_DISPATCHER', 'NO_WORKER') AND system_key <> 'jobs'
