-- Locks the queued rows with the keys ($1, $2), in order; a missing one is not queued. One by one, as in run_lease/lock.sql.
SELECT q.job_id FROM (
    SELECT k.* FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) ORDER BY k.job_id, k.scheduled_for
) k CROSS JOIN LATERAL (
    SELECT q.job_id FROM run_queue q WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for LIMIT 1 FOR UPDATE
) q
