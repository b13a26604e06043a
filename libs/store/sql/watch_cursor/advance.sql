-- Moves the locked cursors $1 on; $2..$4 are arrays of the same length: judged_through, next_at, judge_at (NULL: nothing
-- is to be looked at until the definition changes).
UPDATE watch_cursor w
SET judged_through = c.judged_through, next_at = c.next_at, judge_at = c.judge_at
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[]) AS c(job_id, judged_through, next_at, judge_at)
WHERE w.job_id = c.job_id
