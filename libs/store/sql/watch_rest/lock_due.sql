-- Locks up to $1 rests whose time to be looked at has come, the longest overdue first. No row: nothing is due.
SELECT job_id, through FROM watch_rest
WHERE judge_at <= (SELECT esc_now())
ORDER BY judge_at LIMIT $1
FOR UPDATE SKIP LOCKED
