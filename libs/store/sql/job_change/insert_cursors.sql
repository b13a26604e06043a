-- Lets the planner and the watchdog begin with new jobs; $1..$3 are arrays of one length: job_id, the first instant
-- (NULL: the schedule has none left), when the watchdog looks at it (NULL: not watched).
WITH new AS MATERIALIZED (
    SELECT n.* FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[]) AS n(job_id, first_at, judge_at)
), planned AS (
    INSERT INTO job_cursor (job_id, next_fire_at, generation) SELECT job_id, first_at, 1 FROM new
)
INSERT INTO watch_cursor (job_id, next_at, judge_at) SELECT job_id, first_at, judge_at FROM new
