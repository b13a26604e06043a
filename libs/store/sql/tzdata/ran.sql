-- How many occurrences of the jobs $1 have a run from $2 through $3; $4: the earliest of $2. No row for a job without one.
-- Arrays of one length, but for $3 and $4.
SELECT k.job_id, count(*) AS runs
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, day)
JOIN run r ON r.job_id = k.job_id AND r.scheduled_for >= k.day
WHERE r.scheduled_for BETWEEN $4 AND $3 AND r.origin IN ('SCHEDULE', 'CATCH_UP')
GROUP BY k.job_id
