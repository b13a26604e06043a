-- Lets the queued runs with the keys ($1, $2) be claimed at once: what they were put off for has ended. The caller has
-- locked them.
UPDATE run_queue q SET due_at = esc_now()
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
WHERE q.job_id = k.job_id AND q.scheduled_for = k.scheduled_for
