-- What the workers of the sessions $1 are to be told of their leases: those of claim $2, or all when it is NULL.
WITH lease AS MATERIALIZED (
    SELECT * FROM run_lease WHERE session_id = ANY($1::uuid[]) AND claim_id = $2::uuid
    UNION ALL SELECT * FROM run_lease WHERE session_id = ANY($1::uuid[]) AND $2::uuid IS NULL
)
SELECT l.job_id, l.scheduled_for, l.tenant_id, l.attempt, l.token, l.session_id, l.connection, l.generation, l.exclusive,
       l.undelivered, l.lost, l.failed, l.cancel_reason::text AS cancel_reason, l.accepted_at, l.origin::text AS origin,
       l.queue, d.name AS job_name, d.definition, r.traceparent, coalesce(r.due_at, l.scheduled_for) AS due_at
FROM lease l
-- One by one: joins read every job, revision and run of the day when they take the leases for many.
CROSS JOIN LATERAL (
    SELECT j.name, v.definition FROM job j JOIN job_revision v ON v.job_id = j.id
    WHERE j.id = l.job_id AND v.generation = l.generation LIMIT 1
) d
LEFT JOIN LATERAL (
    SELECT r.traceparent, r.due_at FROM run r
    WHERE r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for AND r.tenant_id = l.tenant_id
      AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM lease) AND (SELECT max(scheduled_for) FROM lease)
    LIMIT 1
) r ON true
