-- The runs of job $2 of tenant $1 scheduled before $3 and not before $6, in one of the phases $4 and of one of the origins
-- $7 (empty: any), latest first, at most $5.
-- Walks the primary key backward, partition by partition, and asks the view row by row: its phase depends on the clock,
-- so that PostgreSQL neither looks through it for an order nor pushes a filter into it (LIMIT 1 keeps it a look-up).
WITH page AS MATERIALIZED (
    SELECT v.*
    FROM run r
    CROSS JOIN LATERAL (SELECT * FROM run_phase v WHERE v.job_id = r.job_id AND v.scheduled_for = r.scheduled_for LIMIT 1) v
    WHERE r.job_id = $2 AND r.tenant_id IS NOT DISTINCT FROM $1 -- which no index takes: the job's own is the narrow one
      AND r.scheduled_for < $3 AND r.scheduled_for >= $6
      AND (cardinality($7::text[]) = 0 OR r.origin::text = ANY($7::text[]))
      AND (cardinality($4::text[]) = 0
           OR ((r.state = 'PLANNED' OR r.state::text = ANY($4::text[])) AND v.phase = ANY($4::text[])))
    ORDER BY r.scheduled_for DESC
    LIMIT $5
)
SELECT p.scheduled_for, p.due_at, p.generation, p.term, p.origin::text AS origin, p.phase, p.reason::text AS reason,
       p.attempt, p.token, w.name AS worker_name, p.claimed_at, p.accepted_at, p.finished_at,
       o.exit_status, o.tail, o.error
FROM page p
LEFT JOIN worker_session w ON w.id = p.worker
LEFT JOIN LATERAL (
    SELECT exit_status, tail, error FROM run_output o
    WHERE o.job_id = p.job_id AND o.scheduled_for = p.scheduled_for
    ORDER BY o.attempt DESC LIMIT 1
) o ON true
ORDER BY p.scheduled_for DESC
