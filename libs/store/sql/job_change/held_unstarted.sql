-- What the schedule planned of job $1, is held, and was never handed out; what was already to run late is not of that kind.
-- The caller has locked the rows in an earlier statement.
SELECT scheduled_for FROM run_queue
WHERE job_id = $1 AND due_at = 'infinity' AND origin = 'SCHEDULE' AND attempt = 0 AND NOT late
ORDER BY scheduled_for
