-- Which of the instants $2 of job $1 have a run; $3, $4: the first and the last of them.
SELECT r.scheduled_for FROM run r
WHERE r.job_id = $1 AND r.scheduled_for BETWEEN $3 AND $4 AND r.scheduled_for = ANY($2::timestamptz[])
