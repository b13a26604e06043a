-- Takes due runs for the free slots of connected workers: starts what may start, ends what meets an open run of its
-- job, puts off what must wait. The caller has locked the sessions FOR SHARE in the statement before; tokens are
-- drawn in the statement after (a claim that draws first and then waits gives an older token to a newer lease).
--
-- $1, $2: the free slots, session and connection, one element a slot. $3: the dispatcher. $4: names this claim.
-- $5: queues. $6, $7: spans of tenants, each after the one and through the other, in the order to serve them.
-- $8: no row is due before. $9: at most so many rows a lane.
-- A lane is (tenant, queue, priority). At most 64 lanes with due rows are served, and no row past its start_by.
-- Mirrors model::release::release: `skips` and `parks` are its ends and its parked runs. Those are put off too and named in
-- the answer, for the caller to park in a transaction of its own: here the open run can't be locked before it is seen.
-- One row: what it did, and `identified` = false when the database is not the one that `epoch` names: then nothing.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), identity AS MATERIALIZED (
    SELECT e.epoch FROM epoch e, pg_control_system() c
    WHERE e.system_identifier = c.system_identifier AND e.timeline = esc_timeline()
), slot AS MATERIALIZED (
    SELECT s.session_id, s.connection, row_number() OVER (ORDER BY s.place) AS number
    FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS s(session_id, connection, place)
    JOIN worker_session w ON w.id = s.session_id AND w.dispatcher_id = $3 AND w.connection = s.connection
        AND w.ended_at IS NULL
    WHERE EXISTS (SELECT FROM identity)
), lane AS MATERIALIZED (
    SELECT l.tenant_id, l.queue, l.priority
    FROM unnest($6::uuid[], $7::uuid[]) AS span(after, through) CROSS JOIN LATERAL (
        WITH RECURSIVE found AS (
            (SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
             WHERE q.tenant_id > span.after AND q.tenant_id <= span.through AND q.due_at >= $8
             ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1)
            UNION ALL
            SELECT n.* FROM found f CROSS JOIN LATERAL (
                SELECT q.tenant_id, q.queue, q.priority, q.due_at FROM run_queue q
                WHERE (q.tenant_id, q.queue, q.priority) > (f.tenant_id, f.queue, f.priority)
                  AND q.tenant_id <= span.through AND q.due_at >= $8
                ORDER BY q.tenant_id, q.queue, q.priority, q.due_at LIMIT 1
            ) n
        )
        SELECT * FROM found
    ) l
    WHERE l.queue = ANY($5::text[]) AND l.due_at <= (SELECT now FROM at) AND EXISTS (SELECT FROM slot)
    LIMIT 64
), picked AS MATERIALIZED ( -- no ORDER BY out here: it would lock every row that it sorts
    SELECT p.* FROM lane l CROSS JOIN LATERAL (
        SELECT q.* FROM run_queue q
        WHERE q.tenant_id = l.tenant_id AND q.queue = l.queue AND q.priority = l.priority
          AND q.due_at <= (SELECT now FROM at) AND q.due_at >= $8
          AND (q.start_by IS NULL OR q.start_by > (SELECT now FROM at))
        ORDER BY q.due_at LIMIT $9
        FOR UPDATE SKIP LOCKED
    ) p
    LIMIT (SELECT count(*) FROM slot)
), handed AS MATERIALIZED (
    SELECT n.*, s.session_id, s.connection
    FROM (SELECT p.*, row_number() OVER () AS number FROM picked p) n JOIN slot s USING (number)
), started AS ( -- a lease in sight is not tried: waiting for one that is being written could deadlock
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                           undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT h.job_id, h.tenant_id, h.session_id, $4, h.scheduled_for, at.now, h.generation, 0, h.priority,
           h.undelivered, h.lost, h.failed, 1, h.connection, h.origin, h.exclusive, h.queue
    FROM handed h, at
    WHERE h.attempt = 0 AND NOT (h.exclusive AND EXISTS (SELECT FROM run_lease o WHERE o.job_id = h.job_id))
    ORDER BY h.job_id, h.scheduled_for
    ON CONFLICT DO NOTHING
    RETURNING job_id, scheduled_for
), retried AS (
    UPDATE run_lease l
    SET session_id = h.session_id, connection = h.connection, claim_id = $4, claimed_at = at.now, accepted_at = NULL,
        attempt = h.attempt + 1, token = 0
    FROM handed h, at
    WHERE h.attempt >= 1 AND l.job_id = h.job_id AND l.scheduled_for = h.scheduled_for AND l.session_id IS NULL
      AND l.attempt = h.attempt
    RETURNING l.job_id, l.scheduled_for
), leased AS MATERIALIZED (
    SELECT job_id, scheduled_for FROM started UNION ALL SELECT job_id, scheduled_for FROM retried
), blocked AS MATERIALIZED (
    SELECT b.job_id, b.scheduled_for, b.tenant_id, b.place,
           b.begins AND b.scheduled AND b.overlap = 'FORBID' AND NOT b.draining AND NOT b.spared AS skips,
           b.begins AND (b.origin = 'MANUAL'
                         OR b.scheduled AND b.overlap IN ('QUEUE', 'REPLACE') AND NOT b.draining) AS parks,
           b.begins AND b.scheduled AND b.overlap = 'FORBID' AND b.draining AS spared -- from then on
    FROM (
        SELECT h.job_id, h.scheduled_for, h.tenant_id, h.origin, h.overlap, h.spared,
               h.attempt = 0 AND h.exclusive AS begins, h.origin = 'SCHEDULE' AND NOT h.late AS scheduled,
               EXISTS (SELECT FROM catch_up c WHERE c.job_id = h.job_id) AS draining,
               row_number() OVER (PARTITION BY h.job_id ORDER BY h.scheduled_for) AS place
        FROM handed h WHERE (h.job_id, h.scheduled_for) NOT IN (SELECT job_id, scheduled_for FROM leased) -- hashed, unlike EXISTS
    ) b
), unqueued AS (
    DELETE FROM run_queue q
    USING (SELECT job_id, scheduled_for FROM leased UNION ALL SELECT job_id, scheduled_for FROM blocked WHERE skips) g
    WHERE q.job_id = g.job_id AND q.scheduled_for = g.scheduled_for
), postponed AS ( -- out of the way: blocked rows must not hide those that can start; of a job, in their order
    UPDATE run_queue q
    SET due_at = at.now + interval '1 second' + b.place * interval '1 microsecond', spared = q.spared OR b.spared
    FROM blocked b, at
    WHERE NOT b.skips AND q.job_id = b.job_id AND q.scheduled_for = b.scheduled_for
    RETURNING q.job_id
), ended AS (
    UPDATE run r SET state = 'SKIPPED', reason = 'OVERLAP', finished_at = at.now
    FROM blocked b, at
    WHERE b.skips AND r.job_id = b.job_id AND r.scheduled_for = b.scheduled_for AND r.state = 'PLANNED'
      AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM blocked) AND (SELECT max(scheduled_for) FROM blocked)
    RETURNING r.job_id, r.scheduled_for, r.tenant_id
), outcome AS (
    INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
    SELECT e.job_id, e.tenant_id, e.scheduled_for, at.now, 0, 'SKIPPED', 'OVERLAP', true FROM ended e, at
)
SELECT EXISTS (SELECT FROM identity) AS identified,
       (SELECT count(*) FROM leased) AS started,
       (SELECT count(*) FROM ended) AS skipped,
       (SELECT count(*) FROM postponed) AS postponed,
       (SELECT array_agg(job_id ORDER BY job_id, scheduled_for) FROM blocked WHERE parks) AS parking_jobs,
       (SELECT array_agg(scheduled_for ORDER BY job_id, scheduled_for) FROM blocked WHERE parks) AS parking_instants,
       (SELECT count(*) FROM lane) AS lanes,
       (SELECT tenant_id FROM handed ORDER BY number DESC LIMIT 1) AS last_tenant
