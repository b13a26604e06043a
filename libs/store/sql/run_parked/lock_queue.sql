-- Locks the queued runs with the keys ($1, $2), in order, and says what they are. One that is missing was taken, ended or
-- parked by somebody else; a retry has its lease already.
SELECT q.job_id, q.scheduled_for, q.origin::text AS origin, q.overlap::text AS overlap
FROM run_queue q JOIN unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for) USING (job_id, scheduled_for)
WHERE q.attempt = 0 AND q.exclusive AND q.due_at < 'infinity'
ORDER BY q.job_id, q.scheduled_for FOR UPDATE OF q
