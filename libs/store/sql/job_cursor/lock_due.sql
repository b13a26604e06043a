-- Locks up to $2 jobs' cursors that are due within $1 milliseconds, the longest overdue first; those that somebody
-- else has locked are left out. No row: nothing is due.
SELECT job_id FROM job_cursor
WHERE next_fire_at <= (SELECT esc_now()) + $1::bigint * interval '1 millisecond' AND NOT broken
ORDER BY next_fire_at LIMIT $2
FOR UPDATE SKIP LOCKED
