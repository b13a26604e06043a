-- Releases at $2 what is held of job $1 since $3: at once, but not before its own time; runs of a backlog keep their
-- distance, those that were spread over a time and, $6 milliseconds apart, those that were to go out at the job's pace.
-- Lateness counts from then on: nobody was late while the job was paused. $4, $5: the widest range of scheduled_for. The
-- caller has locked the queue's rows in an earlier statement. A row for each.
WITH held AS MATERIALIZED (
    SELECT scheduled_for, origin IN ('CATCH_UP', 'BACKFILL') AND attempt = 0 AS paced,
           row_number() OVER (PARTITION BY origin IN ('CATCH_UP', 'BACKFILL') AND attempt = 0 ORDER BY scheduled_for) - 1 AS place
    FROM run_queue WHERE job_id = $1 AND due_at = 'infinity'
), due AS MATERIALIZED (
    SELECT h.scheduled_for, r.due_at AS was, greatest(
        CASE WHEN h.paced THEN $2::timestamptz + h.place * $6::bigint * interval '1 millisecond' ELSE $2 END,
        CASE WHEN h.paced AND r.due_at > $3 THEN r.due_at + ($2::timestamptz - $3::timestamptz) ELSE r.due_at END) AS at
    FROM held h LEFT JOIN run r ON r.job_id = $1 AND r.scheduled_for = h.scheduled_for AND r.scheduled_for BETWEEN $4 AND $5
), late AS (
    UPDATE run r SET due_at = d.at
    FROM due d
    WHERE r.job_id = $1 AND r.scheduled_for = d.scheduled_for AND r.scheduled_for BETWEEN $4 AND $5 AND d.at > d.was
)
UPDATE run_queue q SET due_at = d.at
FROM due d
WHERE q.job_id = $1 AND q.scheduled_for = d.scheduled_for
RETURNING q.scheduled_for
