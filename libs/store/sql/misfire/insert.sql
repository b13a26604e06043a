-- Records occurrences that were missed and get no run. $1..$7 are arrays of one length: job_id, first, last, count,
-- cause, policy, outcome; $8: the leadership that found them. The caller holds the fence and the jobs' cursors.
INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome)
SELECT m.job_id, m.first, m.last, esc_now(), m.count, $8, m.cause::misfire_cause, m.policy, m.outcome
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::bigint[], $5::text[], $6::text[], $7::text[])
    AS m(job_id, first, last, count, cause, policy, outcome)
ON CONFLICT DO NOTHING
