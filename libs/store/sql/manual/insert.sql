-- Inserts a run of job $1 of tenant $2 that somebody asked for, at the instant $3, and queues it: generation $4, priority
-- $5, overlap $6, queue $7, trace $8. The caller holds the ledger's floor and the job.
-- No row: the job has a run of that instant.
WITH inserted AS (
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, traceparent)
    VALUES ($1, $2, $3, $3, $4, 0, 'MANUAL', $8)
    ON CONFLICT DO NOTHING
    RETURNING job_id, tenant_id, scheduled_for, due_at, generation, origin
)
INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, exclusive, overlap,
                       queue)
SELECT job_id, tenant_id, scheduled_for, due_at, NULL, generation, $5, origin, $6::text <> 'ALLOW', $6::text::run_overlap, $7
FROM inserted
RETURNING scheduled_for
