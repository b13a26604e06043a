-- Inserts planned runs that are not in the ledger yet, and queues of those what is to be handed out.
--
-- $1..$13 are arrays of one length: job_id, scheduled_for, tenant_id, due_at, when it may be handed out (NULL: not
-- queued), start_by, generation, priority, origin, late, overlap, queue, whether a pause holds it. $14: the leadership
-- that plans. $15: the trace that they belong to. The caller holds the fence and the jobs' cursors.
-- One row: how many were inserted, and how many of them queued. A run that exists already is neither.
WITH planned AS MATERIALIZED (
    SELECT p.* FROM unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::timestamptz[],
                           $7::bigint[], $8::smallint[], $9::text[], $10::boolean[], $11::text[], $12::text[],
                           $13::boolean[])
        AS p(job_id, scheduled_for, tenant_id, due_at, release_at, start_by, generation, priority, origin, late, overlap, queue,
             held)
), inserted AS (
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, traceparent)
    SELECT job_id, tenant_id, scheduled_for, due_at, generation, $14, origin::run_origin, $15
    FROM planned ORDER BY job_id, scheduled_for
    ON CONFLICT DO NOTHING
    RETURNING job_id, scheduled_for
), queued AS (
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, late, exclusive,
                           overlap, queue)
    SELECT p.job_id, p.tenant_id, p.scheduled_for, CASE WHEN p.held THEN 'infinity' ELSE p.release_at END, p.start_by,
           p.generation, p.priority,
           p.origin::run_origin, p.late, p.overlap <> 'ALLOW', p.overlap::run_overlap, p.queue
    FROM inserted i JOIN planned p USING (job_id, scheduled_for)
    WHERE p.release_at IS NOT NULL
    ON CONFLICT (job_id, scheduled_for) DO NOTHING
    RETURNING job_id
)
SELECT (SELECT count(*) FROM inserted) AS inserted, (SELECT count(*) FROM queued) AS queued
