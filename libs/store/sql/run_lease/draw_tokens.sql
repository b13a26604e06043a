-- Gives a token to each lease that claim $1 took for the sessions $2, and answers what their workers are to be told, as
-- run_lease/assignments.sql does. In a statement after the one that took them: by then every lease is ours, so that of two
-- leases of one job the later one has the higher token.
WITH drawn AS (
    UPDATE run_lease l SET token = (e.epoch::bigint << 44) | nextval('token_seq')
    FROM epoch e
    WHERE l.session_id = ANY($2::uuid[]) AND l.claim_id = $1 AND l.token = 0
    RETURNING l.*
)
SELECT l.job_id, l.scheduled_for, l.tenant_id, l.attempt, l.token, l.session_id, l.connection, l.generation, l.exclusive,
       l.undelivered, l.lost, l.failed, l.cancel_reason::text AS cancel_reason, l.accepted_at, l.origin::text AS origin,
       l.queue, r.traceparent, coalesce(r.due_at, l.scheduled_for) AS due_at
FROM drawn l
LEFT JOIN LATERAL ( -- one by one, as in assignments.sql
    SELECT r.traceparent, r.due_at FROM run r
    WHERE r.job_id = l.job_id AND r.scheduled_for = l.scheduled_for AND r.tenant_id = l.tenant_id
      AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM drawn) AND (SELECT max(scheduled_for) FROM drawn)
    LIMIT 1
) r ON true
