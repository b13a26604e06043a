-- The runs of the jobs $1 that were not handed out by $2, and those that run late, in order. The caller has locked them
-- in the statement before. What a pause holds (due_at is infinity) is no part of it, but for the late one.
SELECT job_id, scheduled_for, CASE WHEN due_at < 'infinity' THEN due_at ELSE scheduled_for END AS due_at, start_by,
       generation, late, exclusive, queue, tenant_id FROM run_queue
WHERE job_id = ANY($1::uuid[]) AND (start_by < $2 AND due_at < 'infinity' OR late)
ORDER BY job_id, scheduled_for
