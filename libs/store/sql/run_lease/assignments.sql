-- What the workers of the sessions $1 are to be told of their leases: those of claim $2, or all when it is NULL.
WITH lease AS MATERIALIZED (
    SELECT * FROM run_lease WHERE session_id = ANY($1::uuid[]) AND ($2::uuid IS NULL OR claim_id = $2)
)
SELECT l.job_id, l.scheduled_for, l.tenant_id, l.attempt, l.token, l.session_id, l.connection, l.generation, l.exclusive,
       l.undelivered, l.lost, l.failed, l.cancel_reason::text AS cancel_reason, l.accepted_at, l.origin::text AS origin,
       l.queue, j.name AS job_name, v.definition, r.traceparent, coalesce(r.due_at, l.scheduled_for) AS due_at
FROM lease l
JOIN job j ON j.id = l.job_id
JOIN job_revision v ON v.job_id = l.job_id AND v.generation = l.generation
LEFT JOIN run r ON r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for
    AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM lease) AND (SELECT max(scheduled_for) FROM lease)
