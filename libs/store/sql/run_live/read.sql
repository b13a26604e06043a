-- What the run of job $2 of tenant $1 scheduled for $3 showed last. No row: nothing yet, or it is too long ago.
SELECT v.attempt, v."offset" AS before, v.tail, v.fraction, v.note
FROM run_live v
WHERE v.job_id = $2 AND v.scheduled_for = $3 AND EXISTS (SELECT FROM job j WHERE j.id = v.job_id AND j.tenant_id = $1)
