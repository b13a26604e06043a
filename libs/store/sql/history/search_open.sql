-- As search.sql, when all phases $5 are those of runs that have a lease, which are few.
WITH page AS MATERIALIZED (
    SELECT v.*
    FROM run_lease l
    CROSS JOIN LATERAL (SELECT * FROM run_phase v WHERE v.job_id = l.job_id AND v.scheduled_for = l.scheduled_for LIMIT 1) v
    WHERE l.tenant_id = $1 AND (l.scheduled_for, l.job_id) < ($2, $3::uuid) AND l.scheduled_for >= $4
      AND (cardinality($6::text[]) = 0 OR l.origin::text = ANY($6::text[]))
      AND v.phase = ANY($5::text[])
    ORDER BY l.scheduled_for DESC, l.job_id DESC
    LIMIT $7
)
SELECT p.job_id, j.name AS job_name, p.scheduled_for, p.due_at, p.generation, p.term, p.origin::text AS origin, p.phase,
       p.reason::text AS reason, p.attempt, p.token, w.name AS worker_name, p.claimed_at, p.accepted_at, p.finished_at,
       o.exit_status, o.tail, o.error
FROM page p
JOIN job j ON j.id = p.job_id
LEFT JOIN worker_session w ON w.id = p.worker
LEFT JOIN LATERAL (
    SELECT exit_status, tail, error FROM run_output o
    WHERE o.job_id = p.job_id AND o.scheduled_for = p.scheduled_for
    ORDER BY o.attempt DESC LIMIT 1
) o ON true
ORDER BY p.scheduled_for DESC, p.job_id DESC
