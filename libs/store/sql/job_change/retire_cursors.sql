-- Ends planning and watching of job $2 after $1, its generation being $3 now. Instants up to $1 that are not planned
-- or judged yet are still accounted for, by the revision in force then.
WITH planned AS (
    UPDATE job_cursor SET next_fire_at = CASE WHEN next_fire_at <= $1 THEN next_fire_at END, generation = $3
    WHERE job_id = $2
)
UPDATE watch_cursor
SET next_at = CASE WHEN next_at <= $1 THEN next_at END, judge_at = CASE WHEN next_at <= $1 THEN judge_at END
WHERE job_id = $2
