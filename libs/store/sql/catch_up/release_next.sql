-- Queues the next planned row of the backlog of each job in $1 whose lease is free and that has none queued, and
-- closes the backlogs that are empty. $2, $3: the widest range of scheduled_for that a backlog spans. The caller
-- holds the backlogs' locks. A row for each run queued. A paused job's backlog rests.
-- Pace: each is due an interval after the last one of its backlog, and in a slot of its tenant's own. The tenants' paces
-- are locked last, in order; the upsert waits, and then goes on from what is stored.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), backlog AS MATERIALIZED (
    SELECT c.job_id, c.next_at, c.through, c.released_at + c.interval_ms * interval '1 millisecond' AS earliest FROM catch_up c
    WHERE c.job_id = ANY($1::uuid[])
      AND NOT EXISTS (SELECT 1 FROM job j WHERE j.id = c.job_id AND j.paused_at IS NOT NULL)
      AND NOT EXISTS (SELECT 1 FROM run_lease l WHERE l.job_id = c.job_id)
      AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.job_id = c.job_id AND q.origin IN ('CATCH_UP', 'BACKFILL'))
), next AS MATERIALIZED (
    SELECT b.job_id, b.earliest, n.* FROM backlog b LEFT JOIN LATERAL (
        SELECT r.scheduled_for, r.tenant_id, r.generation, r.origin FROM run r
        WHERE r.job_id = b.job_id AND r.scheduled_for BETWEEN $2 AND $3
          AND r.scheduled_for BETWEEN b.next_at AND b.through
          AND r.state = 'PLANNED' AND r.origin <> 'MANUAL'
          -- a scheduled run that was not handed out in time, and waits for its turn as the others do
          AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE r.origin = 'SCHEDULE' AND q.job_id = r.job_id
                                                      AND q.scheduled_for = r.scheduled_for)
        ORDER BY r.scheduled_for LIMIT 1
    ) n ON true
), asked AS MATERIALIZED (
    SELECT t.id AS tenant_id, count(*) AS slots, interval '1 second' / t.catch_up_per_second AS step
    FROM next n JOIN tenant t ON t.id = n.tenant_id GROUP BY t.id
), paced AS (
    INSERT INTO catch_up_pace AS p (tenant_id, next_at)
    SELECT a.tenant_id, at.now + a.slots * a.step FROM asked a, at ORDER BY a.tenant_id
    ON CONFLICT (tenant_id) DO UPDATE
    SET next_at = excluded.next_at + greatest(p.next_at - (SELECT now FROM at), interval '0')
    RETURNING tenant_id, next_at
), placed AS ( -- the tenant's slots end where its pace is now
    SELECT n.job_id, n.scheduled_for, n.tenant_id, n.generation, n.origin,
           greatest(n.scheduled_for, at.now, n.earliest,
                    p.next_at - a.step * (a.slots - row_number() OVER (PARTITION BY n.tenant_id ORDER BY n.job_id) + 1)) AS due_at
    FROM next n JOIN asked a USING (tenant_id) JOIN paced p USING (tenant_id), at
), queued AS (
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, exclusive,
                           overlap, queue)
    SELECT n.job_id, n.tenant_id, n.scheduled_for, n.due_at, NULL, n.generation,
           (v.definition ->> 'priority')::smallint,
           CASE n.origin WHEN 'SCHEDULE' THEN 'CATCH_UP' ELSE n.origin END, true,
           (v.definition ->> 'overlap')::run_overlap, v.definition ->> 'queue'
    FROM placed n JOIN job_revision v ON v.job_id = n.job_id AND v.generation = n.generation
    ORDER BY n.job_id
    ON CONFLICT DO NOTHING
    RETURNING job_id, scheduled_for, due_at
), moved AS (
    UPDATE catch_up c SET next_at = q.scheduled_for + interval '1 second', remaining = greatest(c.remaining - 1, 0),
                          released_at = q.due_at
    FROM queued q WHERE c.job_id = q.job_id
), closed AS (
    DELETE FROM catch_up c USING next n WHERE c.job_id = n.job_id AND n.scheduled_for IS NULL
)
SELECT job_id, scheduled_for FROM queued
