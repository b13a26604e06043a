-- When the last queued run of a backlog of job $1 is due; NULL when none is queued. One row.
SELECT max(due_at) AS due_at FROM run_queue WHERE job_id = $1 AND origin IN ('CATCH_UP', 'BACKFILL') AND attempt = 0
