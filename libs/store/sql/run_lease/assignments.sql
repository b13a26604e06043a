-- What the workers of the sessions $1 are to be told of all their leases, but for what the jobs' definitions say.
WITH lease AS MATERIALIZED (
    SELECT * FROM run_lease WHERE session_id = ANY($1::uuid[])
)
SELECT l.job_id, l.scheduled_for, l.tenant_id, l.attempt, l.token, l.session_id, l.connection, l.generation, l.exclusive,
       l.undelivered, l.lost, l.failed, l.cancel_reason::text AS cancel_reason, l.accepted_at, l.origin::text AS origin,
       l.queue, r.traceparent, coalesce(r.due_at, l.scheduled_for) AS due_at
FROM lease l
-- One by one: a join reads every run of the day when it takes the leases for many.
LEFT JOIN LATERAL (
    SELECT r.traceparent, r.due_at FROM run r
    WHERE r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for AND r.tenant_id = l.tenant_id
      AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM lease) AND (SELECT max(scheduled_for) FROM lease)
    LIMIT 1
) r ON true
