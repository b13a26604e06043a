-- Up to $5 scheduled runs of the jobs $1 whose attempt takes, or took, longer than $2, the milliseconds that each of them allows:
-- those at work, and of its newest 20 since $4 those that ended after $3. One that has a verdict about it is left out. No row: none.
-- OFFSET 0 keeps each look-up a primary key look-up.
SELECT k.job_id, k.scheduled_for, k.since
FROM (SELECT j.id, j.over * interval '1 millisecond' AS over FROM unnest($1::uuid[], $2::bigint[]) AS j(id, over)) j
CROSS JOIN LATERAL (
    SELECT l.job_id, l.scheduled_for, l.accepted_at + j.over AS since FROM run_lease l
    WHERE l.job_id = j.id AND l.session_id IS NOT NULL AND l.accepted_at + j.over < (SELECT esc_now())
      AND l.origin <> 'MANUAL'
    UNION ALL
    SELECT r.job_id, r.scheduled_for, r.accepted_at + j.over
    FROM (SELECT r.job_id, r.scheduled_for, r.accepted_at, r.finished_at FROM run r
          WHERE r.job_id = j.id AND r.scheduled_for BETWEEN $4 AND (SELECT esc_now()) AND r.origin <> 'MANUAL'
          ORDER BY r.scheduled_for DESC LIMIT 20) r
    WHERE r.finished_at > $3 AND r.accepted_at + j.over < r.finished_at
) k
WHERE NOT EXISTS (SELECT FROM verdict v
                  WHERE v.job_id = k.job_id AND v.occurrence = k.scheduled_for AND v.kind = 'RUNTIME'
                  OFFSET 0)
ORDER BY k.job_id, k.scheduled_for LIMIT $5
