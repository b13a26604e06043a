-- Locks the runs of the jobs $1 that were not handed out by $2, the latest time to do so, and those that run late, in
-- order; waits for the claims that are taking one. What a pause holds (due_at is infinity) is no part of it, but for the
-- late one.
SELECT job_id FROM run_queue
WHERE job_id = ANY($1::uuid[]) AND (start_by < $2 AND due_at < 'infinity' OR late)
ORDER BY job_id, scheduled_for FOR UPDATE
