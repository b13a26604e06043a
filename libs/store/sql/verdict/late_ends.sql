-- Up to $5 scheduled runs, as ends.sql finds them, that ended by $1, and whose end snapshot $2 does not see and $3 does: it
-- was committed later than ends.sql looks back. $4: the ledger keeps nothing before. By transaction, as the index has it.
-- No row: none, as nearly always.
WITH asking AS MATERIALIZED (
    SELECT DISTINCT tenant_id FROM job WHERE definition -> 'alert' -> 'on' IS NOT NULL AND deleted_at IS NULL
)
SELECT u.job_id, u.scheduled_for, e.at
FROM asking t
CROSS JOIN LATERAL (
    SELECT e.id, e.at, e.job_id, e.scheduled_for FROM run_event e
    WHERE e.tenant_id = t.tenant_id AND e.xid >= pg_snapshot_xmin($2::text::pg_snapshot) AND e.at <= $1
      AND (e.phase IN ('FAILED', 'TIMED_OUT', 'LOST') OR e.phase = 'SKIPPED' AND e.reason = 'OVERLAP')
      AND NOT pg_visible_in_snapshot(e.xid, $2::text::pg_snapshot) AND pg_visible_in_snapshot(e.xid, $3::text::pg_snapshot)
    OFFSET 0
) e
CROSS JOIN LATERAL unnest(e.job_id, e.scheduled_for) AS u(job_id, scheduled_for)
JOIN job j ON j.id = u.job_id AND j.definition -> 'alert' -> 'on' IS NOT NULL AND j.deleted_at IS NULL
  AND NOT coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false)
WHERE u.scheduled_for >= $4 AND date_trunc('second', u.scheduled_for) = u.scheduled_for
ORDER BY e.id LIMIT $5
