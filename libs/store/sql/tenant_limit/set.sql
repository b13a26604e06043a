-- Gives tenant $1, whose row is held, these limits, NULL for none: $2 jobs, $3 seconds between two runs of a job at least, $4
-- bytes of what runs, $5 days of history.
UPDATE tenant_limit
SET generation = generation + 1, max_jobs = $2, min_interval_s = $3, max_payload_bytes = $4, history_days = $5
WHERE tenant_id = $1
