-- Sends runs back to the queue after an attempt that did not end them: the lease stays, without a session, so that an
-- exclusive job stays closed during the backoff. The caller has locked the leases in a statement before. The retry of a
-- paused job is held; a pause that commits in the same instant may miss one, which then runs once more.
--
-- $1..$15 are arrays of one length: job_id, scheduled_for, attempt, token, session (NULL = whichever), undelivered,
-- lost, failed, backoff in milliseconds, state, reason, exit_status, tail (NULL = nothing to keep), truncated, error.
-- A row for each run that was sent back by this; a missing one was not in the state that was named (stale).
WITH trying AS MATERIALIZED (
    SELECT t.* FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::uuid[], $6::smallint[],
                           $7::smallint[], $8::smallint[], $9::bigint[], $10::text[], $11::text[], $12::integer[],
                           $13::bytea[], $14::boolean[], $15::text[])
        AS t(job_id, scheduled_for, attempt, token, session_id, undelivered, lost, failed, backoff_ms, state, reason,
             exit_status, tail, truncated, error)
), at AS MATERIALIZED (
    SELECT esc_now() AS now
), held AS MATERIALIZED ( -- one by one, by its key
    SELECT t.*, l.place FROM trying t CROSS JOIN LATERAL (
        SELECT l.ctid AS place FROM run_lease l
        WHERE l.job_id = t.job_id AND l.scheduled_for = t.scheduled_for AND l.attempt = t.attempt AND l.token = t.token
          AND l.session_id IS NOT NULL AND (t.session_id IS NULL OR l.session_id = t.session_id)
        LIMIT 1
    ) l
), freed AS ( -- accepted_at stays for the records below and goes with the next claim
    UPDATE run_lease l
    SET session_id = NULL, deadline = NULL, undelivered = t.undelivered, lost = t.lost, failed = t.failed
    FROM held t WHERE l.ctid = t.place
    RETURNING l.*, t.session_id AS worker, t.backoff_ms, t.state, t.reason, t.exit_status, t.tail, t.truncated, t.error
), queued AS (
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, undelivered, lost,
                           failed, attempt, origin, late, exclusive, queue)
    SELECT f.job_id, f.tenant_id, f.scheduled_for,
           CASE WHEN EXISTS (SELECT FROM job j WHERE j.id = f.job_id AND j.paused_at IS NOT NULL) THEN 'infinity'
                ELSE at.now + f.backoff_ms * interval '1 millisecond' END, NULL, f.generation,
           f.priority, f.undelivered, f.lost, f.failed, f.attempt, f.origin, false, f.exclusive, f.queue
    FROM freed f, at
    ORDER BY f.job_id, f.scheduled_for
), outcome AS (
    INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, claimed_at, accepted_at, token, attempt,
                             state, reason, final)
    SELECT f.job_id, f.tenant_id, f.worker, f.scheduled_for, at.now, f.claimed_at, f.accepted_at, f.token, f.attempt,
           f.state::run_state, f.reason::run_reason, false
    FROM freed f, at
), output AS (
    INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, truncated, tail, error)
    SELECT f.job_id, f.scheduled_for, f.attempt, f.exit_status, f.truncated, f.tail, f.error
    FROM freed f
    WHERE f.tail IS NOT NULL
), told AS (
    INSERT INTO run_event (tenant_id, at, phase, reason, job_id, scheduled_for, attempt)
    SELECT f.tenant_id, at.now, 'RETRYING', f.reason, array_agg(f.job_id), array_agg(f.scheduled_for), array_agg(f.attempt)
    FROM freed f, at
    GROUP BY f.tenant_id, at.now, f.reason
)
SELECT job_id, scheduled_for FROM freed
