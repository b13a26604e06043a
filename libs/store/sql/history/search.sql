-- The runs of tenant $1 before $2, $3 (the instant and job of the last one seen) and not before $4, in one of the phases
-- $5 and of one of the origins $6 (empty: any), latest first, at most $7. Walks run_of_tenant backward, partition by
-- partition, and asks the view row by row. search_ended.sql and search_open.sql answer alike from fewer rows; history.rs says
-- why they are no branches of this.
WITH page AS MATERIALIZED (
    SELECT v.*
    FROM run r
    CROSS JOIN LATERAL (SELECT * FROM run_phase v WHERE v.job_id = r.job_id AND v.scheduled_for = r.scheduled_for LIMIT 1) v
    WHERE r.tenant_id = $1 AND (r.scheduled_for, r.job_id) < ($2, $3::uuid) AND r.scheduled_for <= $2 AND r.scheduled_for >= $4
      AND (cardinality($6::text[]) = 0 OR r.origin::text = ANY($6::text[]))
      AND (cardinality($5::text[]) = 0
           OR ((r.state = 'PLANNED' OR r.state::text = ANY($5::text[])) AND v.phase = ANY($5::text[])))
    ORDER BY r.scheduled_for DESC, r.job_id DESC
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
