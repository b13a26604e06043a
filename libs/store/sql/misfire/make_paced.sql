-- Lets the queued runs ($1, $2), which were not handed out in time, run as a backlog, each from $3 on.
UPDATE run_queue q SET origin = 'CATCH_UP', start_by = NULL, due_at = k.due_at
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS k(job_id, scheduled_for, due_at)
WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for
