-- Locks the leases with the keys ($1, $2), in order; a missing one is not open.
SELECT l.job_id FROM run_lease l JOIN unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) USING (job_id, scheduled_for)
ORDER BY l.job_id, l.scheduled_for FOR UPDATE OF l
