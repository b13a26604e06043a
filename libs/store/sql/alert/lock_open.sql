-- Locks the open alerts of the jobs $1, in order. A row for each: what it is about, whether anybody was told, and whether
-- somebody looks after it.
SELECT id, job_id, kind, untold, acknowledged_at IS NOT NULL AS acknowledged, silenced_until, next_repeat_at FROM alert
WHERE job_id = ANY($1::uuid[]) AND resolved_at IS NULL
ORDER BY id FOR UPDATE
