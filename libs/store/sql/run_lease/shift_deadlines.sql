-- After the clock has jumped ahead by $2 milliseconds: an attempt's time is its worker's, which no jump shortens. Moves the
-- deadlines of the attempts that sessions of dispatcher $1 had accepted at $3 or before, an instant that the clock jumped over.
-- A row for each.
WITH lease AS MATERIALIZED (
    SELECT l.job_id, l.scheduled_for FROM run_lease l
    WHERE l.session_id IN (SELECT id FROM worker_session WHERE dispatcher_id = $1 AND ended_at IS NULL)
      AND l.deadline IS NOT NULL AND l.accepted_at <= $3
    ORDER BY l.job_id, l.scheduled_for FOR UPDATE
)
UPDATE run_lease l SET deadline = l.deadline + $2::bigint * interval '1 millisecond'
FROM lease d WHERE l.job_id = d.job_id AND l.scheduled_for = d.scheduled_for
RETURNING l.job_id
