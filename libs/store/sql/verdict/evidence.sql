-- What the ledger shows of the occurrences ($1 job_id, $2 scheduled_for); $3, $4: the first and last of them, so that
-- only their partitions are touched. One that has succeeded shows its first success, whatever became of it since by
-- being run again. What a failed run said comes from its last attempt's output. OFFSET 0 keeps each look-up a primary
-- key look-up, however many there are. No row for an occurrence that nobody planned.
SELECT k.job_id, k.scheduled_for, CASE WHEN s.at IS NULL THEN p.phase ELSE 'SUCCEEDED' END AS phase,
       CASE WHEN s.at IS NULL THEN p.reason::text END AS reason, coalesce(s.at, p.finished_at) AS finished_at,
       p.due_at, p.claimed_at, p.attempt, o.exit_status, o.error
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
CROSS JOIN LATERAL (
    SELECT v.phase, v.reason, v.finished_at, v.due_at, v.claimed_at, v.attempt FROM run_phase v
    WHERE v.job_id = k.job_id AND v.scheduled_for = k.scheduled_for AND v.scheduled_for BETWEEN $3 AND $4
    OFFSET 0
) p
LEFT JOIN LATERAL (
    SELECT x.exit_status, x.error FROM run_output x
    WHERE p.phase = 'FAILED' AND x.job_id = k.job_id AND x.scheduled_for = k.scheduled_for AND x.attempt = p.attempt
      AND x.scheduled_for BETWEEN $3 AND $4
    OFFSET 0
) o ON true
LEFT JOIN LATERAL (
    SELECT x.at FROM run_outcome x
    WHERE x.job_id = k.job_id AND x.scheduled_for = k.scheduled_for AND x.state = 'SUCCEEDED' AND NOT x.final
      AND x.scheduled_for BETWEEN $3 AND $4
    ORDER BY x.attempt
    LIMIT 1
    OFFSET 0
) s ON true
