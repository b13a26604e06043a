-- Locks up to $1 check-ins whose time to be looked at has come, the longest overdue first. No row: nothing is due.
SELECT id FROM check_in
WHERE judge_at <= (SELECT esc_now())
ORDER BY judge_at LIMIT $1
FOR UPDATE SKIP LOCKED
