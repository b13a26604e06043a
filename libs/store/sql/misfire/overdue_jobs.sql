-- Up to $1 jobs that have runs which were not handed out in time, the longest overdue first. A hint: nothing is
-- locked. What a pause holds is not meant.
SELECT DISTINCT o.job_id FROM (
    SELECT q.job_id FROM run_queue q WHERE q.start_by < (SELECT esc_now()) AND q.due_at < 'infinity' ORDER BY q.start_by LIMIT $1
) o
