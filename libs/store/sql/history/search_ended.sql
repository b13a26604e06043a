-- As search.sql, when all phases $5 are ends other than success: these are few among many, and have an index of their own.
-- What was run again since has another end, or none: the ledger says which.
WITH page AS MATERIALIZED (
    SELECT v.*
    FROM unnest($5::text[]) AS s(state)
    CROSS JOIN LATERAL (
        SELECT c.job_id, c.scheduled_for FROM run_outcome c
        CROSS JOIN LATERAL ( -- by its key, for each: never a join of both histories
            SELECT r.origin FROM run r
            WHERE r.job_id = c.job_id AND r.scheduled_for = c.scheduled_for AND r.state = c.state AND r.attempt = c.attempt
            LIMIT 1
        ) r
        WHERE c.tenant_id = $1 AND c.final AND c.state = s.state::run_state
          AND (c.scheduled_for, c.job_id) < ($2, $3::uuid) AND c.scheduled_for <= $2 AND c.scheduled_for >= $4
          AND (cardinality($6::text[]) = 0 OR r.origin::text = ANY($6::text[]))
        ORDER BY c.scheduled_for DESC, c.job_id DESC
        LIMIT $7
    ) c
    CROSS JOIN LATERAL (SELECT * FROM run_phase v WHERE v.job_id = c.job_id AND v.scheduled_for = c.scheduled_for LIMIT 1) v
    ORDER BY c.scheduled_for DESC, c.job_id DESC
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
