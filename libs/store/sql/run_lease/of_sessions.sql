-- The leases of the sessions $1, narrow. $2: so many milliseconds after a deadline or a request to cancel a worker has
-- had its chance to stop. No row: the session holds nothing.
SELECT l.job_id, l.scheduled_for, l.attempt, l.token, l.session_id, l.connection, l.generation, l.undelivered, l.lost,
       l.failed, l.cancel_reason::text AS cancel_reason, coalesce(l.deadline <= (SELECT esc_now()), false) AS overdue,
       coalesce(least(l.deadline, l.cancel_requested) <= (SELECT esc_now()) - $2::bigint * interval '1 millisecond', false) AS given_up,
       NOT EXISTS (SELECT FROM job j WHERE j.id = l.job_id AND j.deleted_at IS NULL) AS orphaned
FROM run_lease l
WHERE l.session_id = ANY($1::uuid[])
ORDER BY l.job_id, l.scheduled_for
