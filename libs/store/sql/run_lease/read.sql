-- The leases with the keys ($1, $2); a missing one is not open. The caller has locked them in a statement before.
-- $3: as in of_sessions.sql. One by one, as in lock.sql.
SELECT l.job_id, l.scheduled_for, l.attempt, l.token, l.session_id, l.connection, l.generation, l.undelivered, l.lost,
       l.failed, l.cancel_reason::text AS cancel_reason, coalesce(l.deadline <= (SELECT esc_now()), false) AS overdue,
       coalesce(least(l.deadline, l.cancel_requested) <= (SELECT esc_now()) - $3::bigint * interval '1 millisecond', false) AS given_up,
       NOT EXISTS (SELECT FROM job j WHERE j.id = l.job_id AND j.deleted_at IS NULL) AS orphaned
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) CROSS JOIN LATERAL (
    SELECT * FROM run_lease l WHERE l.job_id = k.job_id AND l.scheduled_for = k.scheduled_for LIMIT 1
) l
