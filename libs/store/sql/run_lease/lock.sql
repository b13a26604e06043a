-- Locks the leases with the keys ($1, $2), in order; a missing one is not open. One by one: a plan that was made while the
-- table was empty would read all of it.
SELECT l.job_id FROM (
    SELECT k.* FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) ORDER BY k.job_id, k.scheduled_for
) k CROSS JOIN LATERAL (
    SELECT l.job_id FROM run_lease l WHERE l.job_id = k.job_id AND l.scheduled_for = k.scheduled_for LIMIT 1 FOR UPDATE
) l
