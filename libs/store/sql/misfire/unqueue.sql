-- Takes the queued runs ($1, $2), which were not handed out in time, out of the queue: their backlog queues them again,
-- one after the other.
DELETE FROM run_queue q USING unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for
