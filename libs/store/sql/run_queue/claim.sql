-- Takes due runs for the free slots of connected workers: starts what may start, ends what meets an open run of its
-- job, puts off what must wait. The caller has chosen the tenants and locked those with limits (tenant/serve.sql), and
-- then locked the sessions FOR SHARE, in the statements before; tokens are drawn in the statement after (a claim that
-- draws first and then waits gives an older token to a newer lease).
--
-- $1, $2: the free slots, session and connection, one element a slot. $3: the dispatcher. $4: names this claim.
-- $5: queues. $6: no row is due before. $7: at most so many rows of a tenant for each unit of its weight.
-- $8, $9: the tenant at which the last claim ran out of slots, and what was left of its share; NULL when none was.
-- $10: the latest that the clock may show without having jumped; NULL: whatever it shows.
-- Shares: slots by weight, whole rows; what a share lacks comes with the next claim. Within a tenant its queues take
-- turns by chance; within a queue priorities are strict. No row past its start_by.
-- Limits: leases with a session count, a retry's wait does not. Locked tenants only, so that the count is exact.
-- Rows are found again one by one, by their keys, and changed by their places: a plan that was made while the tables were empty
-- would join them, and read all that waits or runs for each claim. Whoever changed one meanwhile is followed as by its key.
-- Mirrors model::release::release: `skips` and `parks` are its ends and its parked runs. Those are put off too and named in
-- the answer, for the caller to park in a transaction of its own: here the open run can't be locked before it is seen.
-- One row: what it did, and `identified` = false when the database is not the one that `epoch` names, or was started anew
-- and not compared with the mark since, `believed` = false when the clock shows more than $10: then nothing.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), identity AS MATERIALIZED (
    SELECT e.epoch FROM epoch e, pg_control_system() c
    WHERE e.system_identifier = c.system_identifier AND e.timeline = esc_timeline()
      AND e.compared_start = pg_postmaster_start_time() AND e.compared_sequence = 'token_seq'::regclass::oid
), slot AS MATERIALIZED (
    SELECT s.session_id, s.connection, w.tenant_id, row_number() OVER (ORDER BY s.place) AS number
    FROM unnest($1::uuid[], $2::integer[]) WITH ORDINALITY AS s(session_id, connection, place)
    JOIN worker_session w ON w.id = s.session_id AND w.dispatcher_id = $3 AND w.connection = s.connection
        AND w.ended_at IS NULL
    WHERE EXISTS (SELECT FROM identity) AND ($10::timestamptz IS NULL OR (SELECT now FROM at) <= $10)
), served AS MATERIALIZED ( -- one that was given its first limit since it was chosen is not locked: left for the next claim
    SELECT s.tenant_id, s.place, coalesce(t.weight, 1) AS weight, t.max_starts_per_second AS rate, t.starts_through,
           least(t.max_running - r.running, b.starts) AS room
    FROM (SELECT id::uuid AS tenant_id, place
          FROM string_to_table(nullif(current_setting('escapement.served', true), ''), ',') WITH ORDINALITY AS s(id, place)) s
    LEFT JOIN LATERAL (SELECT * FROM tenant t WHERE t.id = s.tenant_id LIMIT 1) t ON true -- by its key, whatever is estimated
    LEFT JOIN LATERAL (
        SELECT count(*) AS running FROM run_lease l
        WHERE t.max_running IS NOT NULL AND l.tenant_id = t.id AND l.session_id IS NOT NULL
    ) r ON true
    LEFT JOIN LATERAL ( -- a bucket that holds a tenth of a second's starts, and one: what a second may exceed the limit by
        SELECT least(1 + t.max_starts_per_second / 10,
                     floor(extract(epoch FROM a.now - least(coalesce(t.starts_through, a.now - interval '1 hour'), a.now))
                           * t.max_starts_per_second)::bigint) AS starts
        FROM at a
        WHERE t.max_starts_per_second IS NOT NULL
    ) b ON true
    WHERE EXISTS (SELECT FROM slot)
      AND (t.id = ANY(string_to_array(nullif(current_setting('escapement.locked', true), ''), ',')::uuid[])
           OR t.max_running IS NULL AND t.max_starts_per_second IS NULL
              AND NOT EXISTS (SELECT FROM queue_limit l WHERE l.tenant_id = s.tenant_id))
), part AS MATERIALIZED ( -- a queue of a tenant with due rows; `parts`: those of the tenant that may start something
    SELECT p.tenant_id, p.queue, p.room,
           greatest(1, count(*) FILTER (WHERE p.room IS NULL OR p.room > 0) OVER (PARTITION BY p.tenant_id)) AS parts
    FROM (
        SELECT q.*, l.max_running - CASE WHEN l.max_running IS NOT NULL THEN (
                   SELECT count(*) FROM run_lease o
                   WHERE o.tenant_id = q.tenant_id AND o.queue = q.queue AND o.session_id IS NOT NULL) END AS room
        FROM (SELECT s.tenant_id, d.queue FROM served s CROSS JOIN (SELECT DISTINCT unnest($5::text[]) AS queue) d
              WHERE (SELECT true FROM run_queue q WHERE q.tenant_id = s.tenant_id AND q.queue = d.queue
                       AND q.due_at >= $6 AND q.due_at <= (SELECT now FROM at) LIMIT 1)) q
        LEFT JOIN queue_limit l ON l.tenant_id = q.tenant_id AND l.queue = q.queue
    ) p
    ORDER BY md5($4::uuid::text || p.queue)
), unit AS MATERIALIZED ( -- rows for each unit of weight, of those that may start something
    SELECT greatest(1, least($7::bigint, (SELECT count(*) FROM slot)
           / greatest(1, sum(s.weight) FILTER (WHERE s.room IS NULL OR s.room > 0)))) AS rows
    FROM served s
), share AS MATERIALIZED (
    SELECT s.*, greatest(0, least(CASE WHEN s.tenant_id = $8::uuid THEN $9::bigint ELSE s.weight * u.rows END, s.room)) AS rows
    FROM served s, unit u ORDER BY s.place
), picked AS MATERIALIZED ( -- no ORDER BY out here: it would lock every row that it sorts
    SELECT t.* FROM share s CROSS JOIN LATERAL (
        SELECT o.* FROM part p CROSS JOIN LATERAL (
            SELECT r.* FROM generate_series(0, 9) AS l(priority) CROSS JOIN LATERAL (
                SELECT q.* FROM run_queue q
                WHERE q.tenant_id = s.tenant_id AND q.queue = p.queue AND q.priority = l.priority
                  AND q.due_at <= (SELECT now FROM at) AND q.due_at >= $6
                  AND (q.start_by IS NULL OR q.start_by > (SELECT now FROM at))
                ORDER BY q.due_at LIMIT s.rows
                FOR UPDATE SKIP LOCKED
            ) r
            LIMIT greatest(0, least((s.rows + p.parts - 1) / p.parts, p.room))
        ) o
        WHERE p.tenant_id = s.tenant_id
        LIMIT s.rows
    ) t
    LIMIT (SELECT count(*) FROM slot)
), slots AS MATERIALIZED ( -- by number: a join compared each row with each slot, 250,000 times for 500
    SELECT array_agg(session_id ORDER BY number) AS sessions, array_agg(connection ORDER BY number) AS connections,
           array_agg(coalesce(tenant_id, '00000000-0000-0000-0000-000000000000') ORDER BY number) AS tenants -- NULLs are counted through
    FROM slot
), handed AS MATERIALIZED ( -- a session takes its own tenant's runs only
    SELECT n.*, s.sessions[n.number] AS session_id, s.connections[n.number] AS connection
    FROM (SELECT p.*, row_number() OVER () AS number FROM picked p) n, slots s
    WHERE s.tenants[n.number] IN ('00000000-0000-0000-0000-000000000000', n.tenant_id)
), held AS MATERIALIZED ( -- at their limit
    SELECT s.tenant_id, p.queue, s.room <= g.picked AS by_tenant, p.room <= g.of_queue AS by_queue
    FROM share s JOIN part p ON p.tenant_id = s.tenant_id CROSS JOIN LATERAL (
        SELECT count(*) AS picked, count(*) FILTER (WHERE k.queue = p.queue) AS of_queue FROM picked k WHERE k.tenant_id = s.tenant_id
    ) g
    WHERE s.room <= g.picked OR p.room <= g.of_queue
), meeting AS MATERIALIZED ( -- what meets an open run of its job starts nothing: a limit doesn't keep it from its end
    SELECT q.*
    FROM (SELECT DISTINCT l.job_id, h.tenant_id, h.queue FROM held h CROSS JOIN LATERAL (
              SELECT l.job_id FROM run_lease l
              WHERE l.tenant_id = h.tenant_id AND l.queue = h.queue AND l.session_id IS NOT NULL OFFSET 0
          ) l) l
    CROSS JOIN LATERAL (
        SELECT q.* FROM run_queue q
        WHERE q.job_id = l.job_id AND q.queue || '' = l.queue AND q.attempt = 0 AND q.exclusive -- by its key, never by the queue
          AND (q.due_at <= (SELECT now FROM at)) IS TRUE AND (q.start_by IS NULL OR q.start_by > (SELECT now FROM at))
          AND (q.job_id, q.scheduled_for) NOT IN (SELECT job_id, scheduled_for FROM picked)
        LIMIT 100
        FOR UPDATE SKIP LOCKED
    ) q
    LIMIT 100
), started AS ( -- a lease in sight is not tried: waiting for one that is being written could deadlock
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                           undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT h.job_id, h.tenant_id, h.session_id, $4, h.scheduled_for, at.now, h.generation, 0, h.priority,
           h.undelivered, h.lost, h.failed, 1, h.connection, h.origin, h.exclusive, h.queue
    FROM handed h, at
    WHERE h.attempt = 0 AND NOT (h.exclusive AND (SELECT true FROM run_lease o WHERE o.job_id = h.job_id LIMIT 1) IS TRUE)
    ORDER BY h.job_id, h.scheduled_for
    ON CONFLICT DO NOTHING
    RETURNING job_id, scheduled_for, tenant_id, attempt
), again AS MATERIALIZED (
    SELECT h.session_id, h.connection, h.attempt, l.place FROM handed h CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM run_lease l WHERE l.job_id = h.job_id AND l.scheduled_for = h.scheduled_for LIMIT 1
    ) l
    WHERE h.attempt >= 1
), retried AS (
    UPDATE run_lease l
    SET session_id = h.session_id, connection = h.connection, claim_id = $4, claimed_at = at.now, accepted_at = NULL,
        attempt = h.attempt + 1, token = 0
    FROM again h, at
    WHERE l.ctid = h.place AND l.session_id IS NULL AND l.attempt = h.attempt
    RETURNING l.job_id, l.scheduled_for, l.tenant_id, l.attempt
), leased AS MATERIALIZED (
    SELECT * FROM started UNION ALL SELECT * FROM retried
), blocked AS MATERIALIZED (
    SELECT b.job_id, b.scheduled_for, b.tenant_id, b.turn,
           b.begins AND b.scheduled AND b.overlap = 'FORBID' AND NOT b.draining AND NOT b.spared AS skips,
           b.begins AND (b.origin = 'MANUAL'
                         OR b.scheduled AND b.overlap IN ('QUEUE', 'REPLACE') AND NOT b.draining) AS parks,
           b.begins AND b.scheduled AND b.overlap = 'FORBID' AND b.draining AS spared -- from then on
    FROM (
        SELECT h.job_id, h.scheduled_for, h.tenant_id, h.origin, h.overlap, h.spared,
               h.attempt = 0 AND h.exclusive AS begins, h.origin = 'SCHEDULE' AND NOT h.late AS scheduled,
               EXISTS (SELECT FROM catch_up c WHERE c.job_id = h.job_id) AS draining,
               row_number() OVER (PARTITION BY h.job_id ORDER BY h.scheduled_for) AS turn
        FROM (
            SELECT job_id, scheduled_for, tenant_id, origin, overlap, spared, attempt, exclusive, late FROM handed
            WHERE (job_id, scheduled_for) NOT IN (SELECT job_id, scheduled_for FROM leased) -- hashed, unlike EXISTS
            UNION ALL
            SELECT job_id, scheduled_for, tenant_id, origin, overlap, spared, attempt, exclusive, late FROM meeting
        ) h
    ) b
), leaving AS MATERIALIZED (
    SELECT q.place
    FROM (SELECT job_id, scheduled_for FROM leased UNION ALL SELECT job_id, scheduled_for FROM blocked WHERE skips) g
    CROSS JOIN LATERAL (
        SELECT q.ctid AS place FROM run_queue q WHERE q.job_id = g.job_id AND q.scheduled_for = g.scheduled_for LIMIT 1
    ) q
), unqueued AS (
    DELETE FROM run_queue q USING leaving g WHERE q.ctid = g.place
), staying AS MATERIALIZED (
    SELECT b.turn, b.spared, q.place FROM blocked b CROSS JOIN LATERAL (
        SELECT q.ctid AS place FROM run_queue q WHERE q.job_id = b.job_id AND q.scheduled_for = b.scheduled_for LIMIT 1
    ) q
    WHERE NOT b.skips
), postponed AS ( -- out of the way: blocked rows must not hide those that can start; of a job, in their order
    UPDATE run_queue q
    SET due_at = at.now + interval '1 second' + b.turn * interval '1 microsecond', spared = q.spared OR b.spared
    FROM staying b, at
    WHERE q.ctid = b.place
    RETURNING q.job_id
), ending AS MATERIALIZED (
    SELECT b.scheduled_for, r.place FROM blocked b CROSS JOIN LATERAL (
        SELECT r.ctid AS place FROM run r
        WHERE r.job_id = b.job_id AND r.scheduled_for = b.scheduled_for AND r.tenant_id = b.tenant_id
          AND r.scheduled_for BETWEEN (SELECT min(scheduled_for) FROM blocked) AND (SELECT max(scheduled_for) FROM blocked)
        LIMIT 1
    ) r
    WHERE b.skips
), ended AS ( -- as in run/end.sql
    UPDATE run r SET state = 'SKIPPED', reason = 'OVERLAP', finished_at = at.now
    FROM ending e, at
    WHERE r.scheduled_for = e.scheduled_for AND r.ctid = e.place AND coalesce(r.state = 'PLANNED', false)
    RETURNING r.job_id, r.scheduled_for, r.tenant_id
), outcome AS (
    INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final)
    SELECT e.job_id, e.tenant_id, e.scheduled_for, at.now, 0, 'SKIPPED', 'OVERLAP', true FROM ended e, at
), told AS ( -- to those who watch: a row for all that started, and one for all that were skipped
    INSERT INTO run_event (tenant_id, at, phase, reason, job_id, scheduled_for, attempt)
    SELECT e.tenant_id, at.now, e.phase, e.reason, array_agg(e.job_id), array_agg(e.scheduled_for), array_agg(e.attempt)
    FROM (SELECT tenant_id, job_id, scheduled_for, attempt, 'RUNNING' AS phase, NULL AS reason FROM leased
          UNION ALL SELECT tenant_id, job_id, scheduled_for, 0, 'SKIPPED', 'OVERLAP' FROM ended) e, at
    GROUP BY e.tenant_id, at.now, e.phase, e.reason
), last AS ( -- where the slots ran out
    SELECT k.tenant_id, s.rows - (SELECT count(*) FROM picked o WHERE o.tenant_id = k.tenant_id) AS credit
    FROM (SELECT tenant_id FROM (SELECT tenant_id, row_number() OVER () AS number FROM picked) n
          WHERE number = (SELECT count(*) FROM slot)) k JOIN share s ON s.tenant_id = k.tenant_id
), counted AS ( -- the bucket's level, and every second that a limit holds
    UPDATE tenant t
    SET starts_through = CASE WHEN c.rate IS NULL THEN t.starts_through ELSE
            greatest(least(coalesce(t.starts_through, '-infinity'), at.now), at.now - make_interval(secs => (1 + c.rate / 10)::float8 / c.rate))
            + make_interval(secs => c.starts::float8 / c.rate) END,
        held_from = CASE WHEN NOT c.held THEN t.held_from
                         WHEN t.held_through >= at.now - interval '5 seconds' THEN t.held_from ELSE at.now END,
        held_through = CASE WHEN c.held THEN at.now ELSE t.held_through END
    FROM (
        SELECT s.tenant_id, s.rate, (SELECT count(*) FROM leased l WHERE l.tenant_id = s.tenant_id) AS starts,
               EXISTS (SELECT FROM held h WHERE h.tenant_id = s.tenant_id AND h.by_tenant) AS held
        FROM served s WHERE s.room IS NOT NULL
    ) c, at
    WHERE t.id = c.tenant_id
      AND (c.rate IS NOT NULL AND c.starts > 0
           OR c.held AND (t.held_through >= at.now - interval '1 second') IS NOT TRUE)
), counted_queue AS (
    UPDATE queue_limit l
    SET held_from = CASE WHEN l.held_through >= at.now - interval '5 seconds' THEN l.held_from ELSE at.now END,
        held_through = at.now
    FROM held h, at
    WHERE h.by_queue AND l.tenant_id = h.tenant_id AND l.queue = h.queue
      AND (l.held_through >= at.now - interval '1 second') IS NOT TRUE
)
SELECT EXISTS (SELECT FROM identity) AS identified, coalesce((SELECT now FROM at) <= $10, true) AS believed,
       (SELECT count(*) FROM leased) AS started,
       (SELECT count(*) FROM ended) AS skipped,
       (SELECT count(*) FROM postponed) AS postponed,
       (SELECT array_agg(job_id ORDER BY job_id, scheduled_for) FROM blocked WHERE parks) AS parking_jobs,
       (SELECT array_agg(scheduled_for ORDER BY job_id, scheduled_for) FROM blocked WHERE parks) AS parking_instants,
       (SELECT count(*) FROM part) AS lanes,
       (SELECT count(*) FROM held) AS held,
       coalesce((SELECT tenant_id FROM last), (SELECT tenant_id FROM served ORDER BY place DESC LIMIT 1)) AS last_tenant,
       (SELECT credit FROM last) AS credit
