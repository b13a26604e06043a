-- Releases at $2 what is held of job $1 since $3: at once, but not before its own time; runs of a backlog that were spread
-- over a time keep their distance. $4, $5: the widest range of scheduled_for. The caller has locked the rows in an
-- earlier statement. A row for each.
UPDATE run_queue q
SET due_at = coalesce((
    SELECT greatest($2, CASE WHEN q.origin IN ('CATCH_UP', 'BACKFILL') AND r.due_at > $3
                             THEN r.due_at + ($2::timestamptz - $3::timestamptz) ELSE r.due_at END)
    FROM run r WHERE r.job_id = q.job_id AND r.scheduled_for = q.scheduled_for AND r.scheduled_for BETWEEN $4 AND $5), $2)
WHERE q.job_id = $1 AND q.due_at = 'infinity'
RETURNING q.scheduled_for
