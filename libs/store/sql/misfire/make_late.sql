-- Lets the queued runs ($1, $2), which were not handed out in time, run late, from $3 on.
UPDATE run_queue q SET late = true, start_by = NULL, due_at = $3
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for
