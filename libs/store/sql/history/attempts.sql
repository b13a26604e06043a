-- The attempts of the run of job $2 of tenant $1 scheduled for $3 that did not end it, in order.
SELECT c.attempt, c.token, w.name AS worker_name, c.state::text AS state, c.reason::text AS reason, c.claimed_at,
       c.accepted_at, c.at AS finished_at, o.exit_status, o.error
FROM run_outcome c
LEFT JOIN worker_session w ON w.id = c.worker
LEFT JOIN run_output o ON o.job_id = c.job_id AND o.scheduled_for = c.scheduled_for AND o.attempt = c.attempt AND o.scheduled_for = $3
WHERE c.job_id = $2 AND c.tenant_id = $1 AND c.scheduled_for = $3 AND NOT c.final
ORDER BY c.attempt
