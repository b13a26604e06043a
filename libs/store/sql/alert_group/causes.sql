-- The troubles that explain why jobs have no success and are open: kind, and what it is about. No row: none is.
SELECT kind, system_key FROM alert
WHERE resolved_at IS NULL AND subject = 'SYSTEM' AND kind IN ('NO_TICKER', 'NO_DISPATCHER', 'NO_WORKER') AND system_key <> 'jobs'
