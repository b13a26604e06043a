-- Locks the watchdog's cursors of the jobs $1, in order.
SELECT job_id FROM watch_cursor WHERE job_id = ANY($1::uuid[]) ORDER BY job_id FOR UPDATE
