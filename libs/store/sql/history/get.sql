-- The run of job $2 of tenant $1 scheduled for $3. No row: there is none.
SELECT p.scheduled_for, p.due_at, p.generation, p.term, p.origin::text AS origin, p.phase, p.reason::text AS reason,
       p.attempt, p.token, w.name AS worker_name, p.claimed_at, p.accepted_at, p.finished_at,
       o.exit_status, o.tail, o.error
FROM run_phase p
LEFT JOIN worker_session w ON w.id = p.worker
LEFT JOIN LATERAL (
    SELECT exit_status, tail, error FROM run_output o
    WHERE o.job_id = p.job_id AND o.scheduled_for = p.scheduled_for AND o.scheduled_for = $3
    ORDER BY o.attempt DESC LIMIT 1
) o ON true
WHERE p.job_id = $2 AND p.tenant_id = $1 AND p.scheduled_for = $3
