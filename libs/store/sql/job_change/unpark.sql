-- Puts the run of job $1 that waits for an earlier one back into the queue, held. The caller has locked it in the statement
-- before.
WITH gone AS (
    DELETE FROM run_parked WHERE job_id = $1 RETURNING *
)
INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, overlap, queue)
SELECT job_id, tenant_id, scheduled_for, 'infinity', generation, priority, origin, true, overlap, queue FROM gone
