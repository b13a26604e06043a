-- Up to $4 scheduled runs that ended without success in ($1, $2] and that alert.on of their jobs may be about, in time order;
-- $3: the ledger keeps nothing before. Those of jobs whose owners want no alert are left out. Asked by tenant and state, as the
-- index has it. No row: none.
WITH asking AS MATERIALIZED (
    SELECT DISTINCT tenant_id FROM job WHERE definition -> 'alert' -> 'on' IS NOT NULL AND deleted_at IS NULL
)
SELECT o.job_id, o.scheduled_for, o.at
FROM asking t
CROSS JOIN unnest(ARRAY['FAILED', 'TIMED_OUT', 'LOST', 'SKIPPED']::run_state[]) AS s(state)
CROSS JOIN LATERAL (
    SELECT o.job_id, o.scheduled_for, o.at, o.reason FROM run_outcome o
    WHERE o.tenant_id = t.tenant_id AND o.state = s.state AND o.at > $1 AND o.at <= $2 AND o.final AND o.scheduled_for >= $3
      AND date_trunc('second', o.scheduled_for) = o.scheduled_for
) o
JOIN job j ON j.id = o.job_id AND j.definition -> 'alert' -> 'on' IS NOT NULL AND j.deleted_at IS NULL
  AND NOT coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false)
WHERE s.state <> 'SKIPPED' OR o.reason = 'OVERLAP'
ORDER BY o.at, o.job_id LIMIT $4
