-- No row: no alert that stands for jobs is open.
SELECT id FROM alert WHERE resolved_at IS NULL AND subject = 'SYSTEM' AND system_key = 'jobs' LIMIT 1
