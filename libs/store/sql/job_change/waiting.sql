-- What waits of job $1: queued and never handed out (token 0), or between two attempts. The caller has locked the queue.
SELECT scheduled_for, 0 AS attempt, 0::bigint AS token FROM run_queue WHERE job_id = $1 AND attempt = 0
UNION ALL
SELECT scheduled_for, attempt, token FROM run_lease WHERE job_id = $1 AND session_id IS NULL
