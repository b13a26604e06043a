-- Ends runs: takes each out of the queue and frees its lease, and writes its end into the ledger. The only way
-- any run ends, but for occurrences that a claim skips. The caller has locked the rows in one statement before this one.
--
-- $1..$11 are arrays of one length: job_id, scheduled_for, attempt (0 = never handed out), token (0 = none),
-- session (NULL = whichever), state, reason, exit_status, tail (NULL = nothing to keep), truncated, error.
-- $12, $13: the first and last scheduled_for, so that only their partitions are touched. $14, as $1: the milliseconds since
-- the worker started the attempt, of which the lease knows nothing yet (NULL: what the lease says).
-- A row for each run that ended by this; a missing one was not in the state that was named (stale).
WITH ending AS MATERIALIZED (
    SELECT e.* FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::uuid[], $6::text[], $7::text[],
                           $8::integer[], $9::bytea[], $10::boolean[], $11::text[], $14::bigint[])
        AS e(job_id, scheduled_for, attempt, token, session_id, state, reason, exit_status, tail, truncated, error, begun_ms)
), now AS MATERIALIZED (
    SELECT esc_now() AS at
), unqueued AS (
    DELETE FROM run_queue q USING ending e
    WHERE q.job_id = e.job_id AND q.scheduled_for = e.scheduled_for AND q.attempt = e.attempt
    RETURNING q.job_id, q.scheduled_for, q.attempt
), unparked AS (
    DELETE FROM run_parked p USING ending e
    WHERE p.job_id = e.job_id AND p.scheduled_for = e.scheduled_for AND e.attempt = 0
), freed AS (
    DELETE FROM run_lease l USING ending e
    WHERE l.job_id = e.job_id AND l.scheduled_for = e.scheduled_for AND l.attempt = e.attempt AND l.token = e.token
      AND (e.session_id IS NULL OR l.session_id = e.session_id)
    RETURNING l.job_id, l.scheduled_for, l.session_id, l.claimed_at, l.accepted_at
), gone AS (
    SELECT job_id, scheduled_for, session_id, claimed_at, accepted_at FROM freed
    UNION ALL
    SELECT job_id, scheduled_for, NULL, NULL, NULL FROM unqueued WHERE attempt = 0
    UNION ALL -- parked, or of a backlog: planned, neither queued nor handed out
    SELECT e.job_id, e.scheduled_for, NULL, NULL, NULL FROM ending e
    WHERE e.attempt = 0
      AND NOT EXISTS (SELECT 1 FROM run_queue q WHERE q.job_id = e.job_id AND q.scheduled_for = e.scheduled_for)
      AND NOT EXISTS (SELECT 1 FROM run_lease l WHERE l.job_id = e.job_id AND l.scheduled_for = e.scheduled_for)
), ended AS (
    UPDATE run r
    SET state = e.state::run_state, reason = e.reason::run_reason, finished_at = now.at, attempt = e.attempt,
        token = nullif(e.token, 0), worker = g.session_id, claimed_at = g.claimed_at,
        accepted_at = CASE WHEN g.accepted_at IS NULL AND e.begun_ms IS NOT NULL
            THEN greatest(g.claimed_at, now.at - e.begun_ms * interval '1 millisecond') ELSE g.accepted_at END
    FROM gone g JOIN ending e USING (job_id, scheduled_for), now
    WHERE r.job_id = g.job_id AND r.scheduled_for = g.scheduled_for AND r.scheduled_for BETWEEN $12 AND $13
      AND r.state = 'PLANNED'
    RETURNING r.job_id, r.scheduled_for, r.tenant_id, r.worker, r.claimed_at, r.accepted_at
), outcome AS (
    INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, claimed_at, accepted_at, token, attempt,
                             state, reason, final)
    SELECT job_id, d.tenant_id, d.worker, scheduled_for, now.at, d.claimed_at, d.accepted_at, nullif(e.token, 0), e.attempt,
           e.state::run_state, e.reason::run_reason, true
    FROM ended d JOIN ending e USING (job_id, scheduled_for), now
    WHERE e.state <> 'SUCCEEDED'
    -- a run that was run again ends anew
    ON CONFLICT (job_id, scheduled_for, attempt, final) DO UPDATE
    SET worker = excluded.worker, at = excluded.at, state = excluded.state, reason = excluded.reason
), output AS (
    INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, truncated, tail, error)
    SELECT job_id, scheduled_for, e.attempt, e.exit_status, e.truncated, e.tail, e.error
    FROM ended d JOIN ending e USING (job_id, scheduled_for)
    WHERE e.tail IS NOT NULL
), told AS (
    INSERT INTO run_event (tenant_id, at, phase, reason, job_id, scheduled_for, attempt)
    SELECT d.tenant_id, now.at, e.state, e.reason, array_agg(job_id), array_agg(scheduled_for), array_agg(e.attempt)
    FROM ended d JOIN ending e USING (job_id, scheduled_for), now
    GROUP BY d.tenant_id, now.at, e.state, e.reason
)
SELECT job_id, scheduled_for, accepted_at FROM ended
