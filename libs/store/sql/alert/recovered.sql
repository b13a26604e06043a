-- Locks up to $2 open alerts of kind $1 that have nothing left to complain about: the job is gone or no longer watched,
-- or its last occurrence that was missed has succeeded after all, or a later one has. Only the newest 100 runs since
-- then are looked at, so that a job that keeps failing each second costs no more than another. An alert about a
-- success that came too late waits for the next occurrence. A row for each, with why; deadlines of its first and last
-- occurrence come from their verdicts.
SELECT a.id, a.job_id, j.name AS job_name, a.first_occurrence, a.last_occurrence, a.opened_at, a.count, a.cause, a.detail,
       f.deadline AS first_deadline, l.deadline AS last_deadline,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'JOB_DELETED'
            WHEN (j.definition -> 'alert' ->> 'disabled')::boolean THEN 'NOT_WATCHED'
            ELSE 'SUCCEEDED' END AS resolution
FROM alert a
JOIN job j ON j.id = a.job_id
LEFT JOIN verdict f ON f.job_id = a.job_id AND f.occurrence = a.first_occurrence AND f.kind = a.kind
LEFT JOIN verdict l ON l.job_id = a.job_id AND l.occurrence = a.last_occurrence AND l.kind = a.kind
WHERE a.resolved_at IS NULL AND a.kind = $1
  AND (j.deleted_at IS NOT NULL
       OR (j.definition -> 'alert' ->> 'disabled')::boolean
       OR EXISTS (SELECT 1 FROM run r
                  WHERE r.job_id = a.job_id AND r.scheduled_for = a.last_occurrence
                    AND r.state = 'SUCCEEDED' AND a.cause <> 'SUCCEEDED_LATE')
       OR EXISTS (SELECT 1 FROM (SELECT r.state FROM run r
                                 WHERE r.job_id = a.job_id AND r.scheduled_for > a.last_occurrence
                                   AND r.scheduled_for <= (SELECT esc_now()) AND r.origin <> 'MANUAL'
                                 ORDER BY r.scheduled_for DESC LIMIT 100) newest
                  WHERE newest.state = 'SUCCEEDED'))
ORDER BY a.id LIMIT $2
FOR UPDATE OF a
