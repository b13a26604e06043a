-- Records that workers have started attempts. $1..$7 are arrays of one length: job_id, scheduled_for, attempt, token,
-- session, the milliseconds from acceptance after which the attempt is overdue, and those since acceptance, which is never
-- before the claim. The caller has locked the leases, in the order of their keys, in a statement before: by their place they
-- are found again. A row for each that was recorded by this; a missing one is stale, or was accepted before.
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), accepted AS MATERIALIZED ( -- one by one, by its key and never by its session
    SELECT l.place, a.limit_ms, greatest(l.claimed_at, at.now - a.age_ms * interval '1 millisecond') AS accepted_at
    FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::uuid[], $6::bigint[], $7::bigint[])
        AS a(job_id, scheduled_for, attempt, token, session_id, limit_ms, age_ms)
    CROSS JOIN at CROSS JOIN LATERAL (
        SELECT l.ctid AS place, l.claimed_at FROM run_lease l
        WHERE l.job_id = a.job_id AND l.scheduled_for = a.scheduled_for AND l.attempt = a.attempt AND l.token = a.token
          AND l.session_id IS NOT DISTINCT FROM a.session_id AND l.session_id IS NOT NULL AND l.accepted_at IS NULL
        LIMIT 1
    ) l
)
UPDATE run_lease l SET accepted_at = a.accepted_at, deadline = a.accepted_at + a.limit_ms * interval '1 millisecond'
FROM accepted a WHERE l.ctid = a.place
RETURNING l.job_id, l.scheduled_for, l.accepted_at
