-- Opens the ended run of job $1 scheduled for $2 again, to be handed out from $3 on: as a retry after its last attempt,
-- with nothing spent; or, if it never had one, as a run that somebody asked for, which no overlap skips. How it ended
-- stays in the ledger as the end of that attempt. The caller has locked the run and the job's leases in statements before.
-- One row: the next attempt. No row: another run of the job was opened meanwhile.
WITH prior AS MATERIALIZED (
    SELECT r.*, v.definition ->> 'overlap' AS overlap, v.definition ->> 'queue' AS queue,
           (v.definition ->> 'priority')::smallint AS priority
    FROM run r JOIN job_revision v ON v.job_id = r.job_id AND v.generation = r.generation
    WHERE r.job_id = $1 AND r.scheduled_for = $2 AND r.state <> 'PLANNED'
), opened AS (
    INSERT INTO run_lease (job_id, tenant_id, claim_id, scheduled_for, claimed_at, generation, token, priority, undelivered,
                           lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT job_id, tenant_id, gen_random_uuid(), scheduled_for, coalesce(claimed_at, $3), generation, token, priority, 0, 0, 0,
           attempt, 0, origin, overlap <> 'ALLOW', queue
    FROM prior WHERE attempt >= 1
    ON CONFLICT DO NOTHING
    RETURNING job_id
), going AS MATERIALIZED (
    SELECT * FROM prior WHERE attempt = 0 OR EXISTS (SELECT FROM opened)
), queued AS (
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, attempt, origin, exclusive, overlap,
                           queue)
    SELECT job_id, tenant_id, scheduled_for, $3, generation, priority, attempt,
           CASE WHEN attempt = 0 THEN 'MANUAL' ELSE origin END, overlap <> 'ALLOW', overlap::run_overlap, queue
    FROM going
), kept AS (
    INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, claimed_at, accepted_at, token, attempt, state,
                             reason, final)
    SELECT job_id, tenant_id, worker, scheduled_for, finished_at, claimed_at, accepted_at, token, attempt, state, reason, false
    FROM going WHERE attempt >= 1
    ON CONFLICT DO NOTHING
)
UPDATE run r SET state = 'PLANNED', reason = NULL, finished_at = NULL, accepted_at = NULL, due_at = $3
FROM going g
WHERE r.job_id = $1 AND r.scheduled_for = $2
RETURNING r.attempt + 1 AS next
