-- Ends runs: takes each out of the queue and frees its lease, and writes its end into the ledger. The only way
-- any run ends, but for occurrences that a claim skips. The caller has locked the rows in one statement before this one.
--
-- $1..$11 are arrays of one length: job_id, scheduled_for, attempt (0 = never handed out), token (0 = none),
-- session (NULL = whichever), state, reason, exit_status, tail (NULL = nothing to keep), truncated, error.
-- $12, $13: the first and last scheduled_for, so that only their partitions are touched. $14, as $1: the milliseconds since
-- the worker started the attempt, of which the lease knows nothing yet (NULL: what the lease says).
-- A row for each run that ended by this, with the instant of its start if that was recorded by this; a missing one was not in
-- the state that was named (stale). The last row has none, but how many were taken out of the queue or lost their lease without
-- an end in the ledger: none, or this must not be committed.
-- What is known of an end goes along from step to step: to join it again would compare each with each.
WITH ending AS MATERIALIZED (
    SELECT e.* FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::uuid[], $6::text[], $7::text[],
                           $8::integer[], $9::bytea[], $10::boolean[], $11::text[], $14::bigint[])
        AS e(job_id, scheduled_for, attempt, token, session_id, state, reason, exit_status, tail, truncated, error, begun_ms)
), now AS MATERIALIZED (
    SELECT esc_now() AS at
), queued AS MATERIALIZED ( -- one by one: a plan that was made while a table was empty would read all of it
    SELECT e.*, q.place, NULL::uuid AS worker, NULL::timestamptz AS claimed_at, NULL::timestamptz AS accepted_at, q.tenant_id
    FROM ending e CROSS JOIN LATERAL (
        SELECT q.ctid AS place, q.tenant_id FROM run_queue q
        WHERE q.job_id = e.job_id AND q.scheduled_for = e.scheduled_for AND q.attempt = e.attempt LIMIT 1
    ) q
), leased AS MATERIALIZED (
    SELECT e.*, l.* FROM ending e CROSS JOIN LATERAL (
        SELECT l.ctid AS place, l.session_id AS worker, l.claimed_at, l.accepted_at, l.tenant_id FROM run_lease l
        WHERE l.job_id = e.job_id AND l.scheduled_for = e.scheduled_for AND l.attempt = e.attempt AND l.token = e.token
          AND (e.session_id IS NULL OR l.session_id = e.session_id)
        LIMIT 1
    ) l
), unqueued AS ( -- whoever moves a queued, leased or planned row has locked it in the queue or its lease, as the caller has
    DELETE FROM run_queue q USING queued e WHERE q.ctid = e.place RETURNING e.*
), unparked AS (
    DELETE FROM run_parked p USING ending e
    WHERE p.job_id = e.job_id AND p.scheduled_for = e.scheduled_for AND e.attempt = 0
), freed AS (
    DELETE FROM run_lease l USING leased e WHERE l.ctid = e.place RETURNING e.*
), gone AS (
    SELECT *, true AS held FROM freed
    UNION ALL
    SELECT *, true FROM unqueued WHERE attempt = 0
    UNION ALL -- parked, or of a backlog: planned, neither queued nor handed out
    SELECT e.*, NULL, NULL, NULL, NULL, j.tenant_id, false FROM ending e CROSS JOIN LATERAL (
        SELECT j.tenant_id FROM job j WHERE j.id = e.job_id LIMIT 1
    ) j
    WHERE e.attempt = 0
      AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.job_id = e.job_id AND q.scheduled_for = e.scheduled_for OFFSET 0)
      AND NOT EXISTS (SELECT 1 FROM run_lease l WHERE l.job_id = e.job_id AND l.scheduled_for = e.scheduled_for OFFSET 0)
), found AS MATERIALIZED (
    SELECT g.*, r.* FROM gone g CROSS JOIN LATERAL (
        SELECT r.ctid AS spot FROM run r
        WHERE r.job_id = g.job_id AND r.scheduled_for = g.scheduled_for AND r.tenant_id = g.tenant_id
          AND r.scheduled_for BETWEEN $12 AND $13 AND r.state = 'PLANNED'
        LIMIT 1
    ) r
), ended AS (
    UPDATE run r
    SET state = g.state::run_state, reason = g.reason::run_reason, finished_at = now.at, attempt = g.attempt,
        token = nullif(g.token, 0), worker = g.worker, claimed_at = g.claimed_at,
        accepted_at = CASE WHEN g.accepted_at IS NULL AND g.begun_ms IS NOT NULL
            THEN greatest(g.claimed_at, now.at - g.begun_ms * interval '1 millisecond') ELSE g.accepted_at END
    FROM found g, now
    -- By its place on its day. What else is asked of it must not look rare: then all would be read to find those few.
    WHERE r.scheduled_for = g.scheduled_for AND r.ctid = g.spot AND coalesce(r.state = 'PLANNED', false)
    RETURNING r.job_id, r.scheduled_for, r.tenant_id, r.worker, r.claimed_at, r.accepted_at, g.attempt, g.token, g.state, g.reason,
              g.exit_status, g.tail, g.truncated, g.error, g.held, CASE WHEN g.accepted_at IS NULL THEN r.accepted_at END AS begun_at
), outcome AS (
    INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, claimed_at, accepted_at, token, attempt,
                             state, reason, final)
    SELECT d.job_id, d.tenant_id, d.worker, d.scheduled_for, now.at, d.claimed_at, d.accepted_at, nullif(d.token, 0), d.attempt,
           d.state::run_state, d.reason::run_reason, true
    FROM ended d, now
    WHERE d.state <> 'SUCCEEDED'
    -- a run that was run again ends anew
    ON CONFLICT (job_id, scheduled_for, attempt, final) DO UPDATE
    SET worker = excluded.worker, at = excluded.at, state = excluded.state, reason = excluded.reason
), output AS (
    INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, truncated, tail, error)
    SELECT job_id, scheduled_for, attempt, exit_status, truncated, tail, error FROM ended WHERE tail IS NOT NULL
), told AS (
    INSERT INTO run_event (tenant_id, at, phase, reason, job_id, scheduled_for, attempt)
    SELECT d.tenant_id, now.at, d.state, d.reason, array_agg(d.job_id), array_agg(d.scheduled_for), array_agg(d.attempt)
    FROM ended d, now
    GROUP BY d.tenant_id, now.at, d.state, d.reason
)
SELECT job_id, scheduled_for, begun_at, NULL::bigint AS lost FROM ended
UNION ALL
SELECT NULL, NULL, NULL, (SELECT count(*) FROM gone WHERE held) - (SELECT count(*) FROM ended WHERE held)
