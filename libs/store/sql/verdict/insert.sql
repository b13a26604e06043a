-- Records verdicts of kind $1; $2..$5 are arrays of one length: job_id, occurrence, deadline, cause. A row for each that
-- is new; a missing one was judged before.
INSERT INTO verdict (job_id, occurrence, judged_at, deadline, kind, cause)
SELECT v.job_id, v.occurrence, esc_now(), v.deadline, $1, v.cause
FROM unnest($2::uuid[], $3::timestamptz[], $4::timestamptz[], $5::text[]) AS v(job_id, occurrence, deadline, cause)
ORDER BY v.job_id, v.occurrence
ON CONFLICT DO NOTHING
RETURNING job_id, occurrence
