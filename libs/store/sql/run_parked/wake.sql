-- Queues the parked runs of those jobs of $1 that have no open run any more, due now; of a paused job they are held.
-- $2, $3: the first and last scheduled_for of what is parked. The caller has locked the parked rows in a statement before
-- the one that freed the leases. A row for each run that was woken.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), woken AS (
    DELETE FROM run_parked p
    WHERE p.job_id = ANY($1::uuid[]) AND NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = p.job_id)
    RETURNING p.*
), late AS ( -- lateness counts from here: it was not late while it waited
    UPDATE run r SET due_at = at.now FROM woken w, at
    WHERE r.job_id = w.job_id AND r.scheduled_for = w.scheduled_for AND r.scheduled_for BETWEEN $2 AND $3
)
INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, overlap, queue)
SELECT w.job_id, w.tenant_id, w.scheduled_for, CASE WHEN j.paused_at IS NULL THEN at.now ELSE 'infinity' END,
       w.generation, w.priority, w.origin, true, w.overlap, w.queue
FROM woken w LEFT JOIN job j ON j.id = w.job_id, at
ORDER BY w.job_id
ON CONFLICT (job_id, scheduled_for) DO NOTHING
RETURNING job_id, scheduled_for
