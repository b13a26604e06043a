-- Adds to the backlogs of the jobs $1 the planned runs from $2 through $3, $4 in number, released at least $5
-- milliseconds apart; the first of a job's backlog makes its row, and of two paces the slower one counts. The caller
-- holds the jobs' cursors and the locks of their backlogs.
INSERT INTO catch_up AS c (job_id, next_at, through, remaining, interval_ms)
SELECT b.job_id, b.next_at, b.through, b.remaining, b.interval_ms
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::integer[], $5::integer[])
    AS b(job_id, next_at, through, remaining, interval_ms)
ON CONFLICT (job_id) DO UPDATE
SET next_at = least(c.next_at, excluded.next_at), through = greatest(c.through, excluded.through),
    remaining = c.remaining + excluded.remaining, interval_ms = greatest(c.interval_ms, excluded.interval_ms)
