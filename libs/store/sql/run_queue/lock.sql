-- Locks the queued rows with the keys ($1, $2), in order; a missing one is not queued.
SELECT q.job_id FROM run_queue q JOIN unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) USING (job_id, scheduled_for)
ORDER BY q.job_id, q.scheduled_for FOR UPDATE OF q
