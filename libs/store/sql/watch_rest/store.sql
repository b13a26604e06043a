-- Remembers or moves on rests; $1..$4 are arrays of one length: job_id, through, judged_through, judge_at.
INSERT INTO watch_rest (job_id, through, judged_through, judge_at)
SELECT * FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[]) AS c(job_id, through, judged_through, judge_at)
ORDER BY c.job_id, c.through
ON CONFLICT (job_id, through)
DO UPDATE SET judged_through = greatest(watch_rest.judged_through, excluded.judged_through), judge_at = excluded.judge_at
