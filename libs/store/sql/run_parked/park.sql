-- Parks the queued runs with the keys ($1, $2), one of each job at most: each takes the place of the one that is parked.
-- The caller has locked queue rows, leases and parked rows in statements before, and ends what is displaced.
WITH taken AS (
    DELETE FROM run_queue q USING unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
    WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for
    RETURNING q.*
)
INSERT INTO run_parked (job_id, tenant_id, scheduled_for, parked_at, generation, priority, origin, overlap, queue)
SELECT job_id, tenant_id, scheduled_for, esc_now(), generation, priority, origin, overlap, queue
FROM taken ORDER BY job_id
ON CONFLICT (job_id) DO UPDATE
SET scheduled_for = excluded.scheduled_for, parked_at = excluded.parked_at, generation = excluded.generation,
    priority = excluded.priority, origin = excluded.origin, overlap = excluded.overlap, queue = excluded.queue
