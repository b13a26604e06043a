-- The runs that wait in the backlogs of the jobs $1, queued or not, and are older than the newest $2 of their job or than
-- $3: too many for its limits. $4, $5: the widest range of scheduled_for that a backlog spans. The caller holds the
-- backlogs' locks. Backfills have no such limit.
WITH asked AS MATERIALIZED (
    SELECT a.* FROM unnest($1::uuid[], $2::bigint[], $3::timestamptz[]) AS a(job_id, keep, since)
), waiting AS (
    SELECT q.job_id, q.scheduled_for, true AS queued FROM asked a JOIN run_queue q USING (job_id)
    WHERE q.origin = 'CATCH_UP' AND q.attempt = 0
    UNION ALL
    SELECT r.job_id, r.scheduled_for, false
    FROM asked a JOIN catch_up c USING (job_id)
    JOIN run r ON r.job_id = c.job_id AND r.scheduled_for BETWEEN c.next_at AND c.through
    WHERE r.scheduled_for BETWEEN $4 AND $5 AND r.state = 'PLANNED' AND r.origin IN ('SCHEDULE', 'CATCH_UP')
      AND NOT EXISTS (SELECT FROM run_queue q WHERE q.job_id = r.job_id AND q.scheduled_for = r.scheduled_for)
      AND NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = r.job_id AND l.scheduled_for = r.scheduled_for)
), ranked AS (
    SELECT w.*, row_number() OVER (PARTITION BY w.job_id ORDER BY w.scheduled_for DESC) AS place FROM waiting w
), over AS MATERIALIZED (
    SELECT r.job_id, r.scheduled_for, r.queued FROM ranked r JOIN asked a USING (job_id)
    WHERE r.place > a.keep OR r.scheduled_for < a.since
), shrunk AS (
    UPDATE catch_up c SET remaining = greatest(c.remaining - o.unqueued, 0)
    FROM (SELECT job_id, count(*)::integer AS unqueued FROM over WHERE NOT queued GROUP BY job_id) o
    WHERE c.job_id = o.job_id
)
SELECT job_id, scheduled_for FROM over ORDER BY job_id, scheduled_for
