-- The queue in which the run of job $1 scheduled for $2 waits, if no open session serves it whose dispatcher was renewed within
-- $3 milliseconds. No row: one does, or the run does not wait.
SELECT q.queue FROM run_queue q
WHERE q.job_id = $1 AND q.scheduled_for = $2
  AND NOT EXISTS (SELECT FROM worker_session w JOIN dispatcher d ON d.id = w.dispatcher_id
                  WHERE w.ended_at IS NULL AND q.queue = ANY(w.queues) AND (w.tenant_id = q.tenant_id OR w.tenant_id IS NULL)
                    AND d.renewed_at > (SELECT esc_now()) - $3::bigint * interval '1 millisecond')
