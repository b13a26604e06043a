-- Locks up to $1 open alerts of jobs that have nothing left to complain about: the job is deleted, paused or no longer
-- watched (as model::job::Definition::success_within says), or its last occurrence that is complained of has succeeded
-- after all, or a later one has; a success ends the kinds $2 only. Of missed deadlines only a later one counts that is judged
-- already or is the next to be: beyond it, one that was missed may be waiting for its judgement, and the alert would be
-- resolved only to open again. Only the newest 100 of those runs are looked at, so that a job that keeps failing each second
-- costs no more than another. OFFSET 0 keeps each look-up a primary key look-up. A row for each, with why, and whether the end
-- is news to those whom the job names (none: to whoever wants it); deadlines of its first and last occurrence come from their
-- verdicts.
SELECT a.id, a.tenant_id, a.job_id, j.name AS job_name, a.first_occurrence, a.last_occurrence, a.opened_at, a.count, a.kind,
       a.cause, a.detail, a.severity, a.labels, a.untold,
       a.untold AND a.explained_by IS NULL AND j.tells_recovery AS is_news, j.channels,
       (SELECT v.deadline FROM verdict v WHERE v.job_id = a.job_id AND v.occurrence = a.first_occurrence AND v.kind = a.kind)
           AS first_deadline,
       (SELECT v.deadline FROM verdict v WHERE v.job_id = a.job_id AND v.occurrence = a.last_occurrence AND v.kind = a.kind)
           AS last_deadline,
       CASE WHEN j.deleted_at IS NOT NULL THEN 'JOB_DELETED'
            WHEN j.paused_at IS NOT NULL THEN 'JOB_PAUSED'
            WHEN j.disabled OR (a.kind = 'NO_SUCCESS' AND j.unwatched) THEN 'NOT_WATCHED'
            ELSE 'SUCCEEDED' END AS resolution
FROM alert a
CROSS JOIN LATERAL (
    SELECT j.name, j.deleted_at, j.paused_at,
           coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false) AS disabled,
           j.definition -> 'misfire' ->> 'policy' = 'SKIP' AND j.definition -> 'alert' ->> 'success_within' IS NULL
               AS unwatched,
           coalesce(j.definition -> 'alert' -> 'on' ->> 'recovered' = 'true', false) AS tells_recovery,
           ARRAY(SELECT jsonb_path_query(j.definition, '$.alert.channels[*] ? (@.type() == "string")') #>> '{}') AS channels
    FROM job j WHERE j.id = a.job_id
    OFFSET 0
) j
WHERE a.resolved_at IS NULL AND a.subject = 'JOB'
  AND (j.deleted_at IS NOT NULL
       OR j.paused_at IS NOT NULL
       OR j.disabled
       OR (a.kind = 'NO_SUCCESS' AND j.unwatched)
       OR a.kind = ANY($2::text[]) AND (
           EXISTS (SELECT 1 FROM run r
                   WHERE r.job_id = a.job_id AND r.scheduled_for = a.last_occurrence
                     AND r.state = 'SUCCEEDED')
           OR EXISTS (SELECT 1 FROM (SELECT r.state FROM run r
                                     WHERE r.job_id = a.job_id AND r.scheduled_for > a.last_occurrence
                                       AND r.scheduled_for <= (SELECT esc_now()) AND r.origin <> 'MANUAL'
                                       AND (a.kind <> 'NO_SUCCESS'
                                            OR NOT EXISTS (SELECT FROM watch_cursor w
                                                           WHERE w.job_id = a.job_id AND w.next_at < r.scheduled_for)
                                               AND NOT EXISTS (SELECT FROM watch_rest w
                                                               WHERE w.job_id = a.job_id AND w.judged_through < r.scheduled_for))
                                     ORDER BY r.scheduled_for DESC LIMIT 100) newest
                      WHERE newest.state = 'SUCCEEDED')))
ORDER BY a.job_id, a.kind LIMIT $1
FOR UPDATE OF a
