-- Up to $3 scheduled runs whose attempt takes, or took, longer than alert.on.runtime_over of their job allows: those at work,
-- and of its newest 20 since $2 those that ended after $1. One that has a verdict about it is left out, and so are those of jobs
-- whose owners want no alert: they never get one, and would keep others out. No row: none.
-- OFFSET 0 keeps each look-up a primary key look-up.
SELECT k.job_id, k.scheduled_for, k.since
FROM (SELECT j.id, jsonb_path_query_first(j.definition, '$.alert.on.runtime_over ? (@ > 0 && @ < 1e15)')::bigint
                   * interval '1 millisecond' AS over
      FROM job j
      WHERE j.definition -> 'alert' -> 'on' IS NOT NULL AND j.deleted_at IS NULL AND j.paused_at IS NULL
        AND j.definition -> 'alert' -> 'on' ->> 'runtime_over' IS NOT NULL
        AND NOT coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false)
      OFFSET 0) j
CROSS JOIN LATERAL (
    SELECT l.job_id, l.scheduled_for, l.accepted_at + j.over AS since FROM run_lease l
    WHERE l.job_id = j.id AND l.session_id IS NOT NULL AND l.accepted_at + j.over < (SELECT esc_now())
      AND l.origin <> 'MANUAL'
    UNION ALL
    SELECT r.job_id, r.scheduled_for, r.accepted_at + j.over
    FROM (SELECT r.job_id, r.scheduled_for, r.accepted_at, r.finished_at FROM run r
          WHERE r.job_id = j.id AND r.scheduled_for BETWEEN $2 AND (SELECT esc_now()) AND r.origin <> 'MANUAL'
          ORDER BY r.scheduled_for DESC LIMIT 20) r
    WHERE r.finished_at > $1 AND r.accepted_at + j.over < r.finished_at
) k
WHERE NOT EXISTS (SELECT FROM verdict v
                  WHERE v.job_id = k.job_id AND v.occurrence = k.scheduled_for AND v.kind = 'RUNTIME'
                  OFFSET 0)
ORDER BY k.job_id, k.scheduled_for LIMIT $3
