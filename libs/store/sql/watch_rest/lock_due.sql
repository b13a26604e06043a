-- Locks up to $1 rests whose time to be looked at has come, the longest overdue first, and with each its job's cursor: who
-- deletes or pauses the job waits for us, or is seen. No row: nothing is due.
SELECT r.job_id, r.through FROM watch_rest r JOIN watch_cursor w ON w.job_id = r.job_id
WHERE r.judge_at <= (SELECT esc_now())
ORDER BY r.judge_at LIMIT $1
FOR UPDATE OF r, w SKIP LOCKED
