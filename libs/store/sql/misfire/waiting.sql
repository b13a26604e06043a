-- The runs of the jobs $1 that were not handed out by $2, and those that run late, in order. The caller has locked them
-- in the statement before.
SELECT job_id, scheduled_for, due_at, start_by, generation, late, exclusive, queue, tenant_id FROM run_queue
WHERE job_id = ANY($1::uuid[]) AND (start_by < $2 OR late)
ORDER BY job_id, scheduled_for
