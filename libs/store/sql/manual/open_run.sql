-- An open run of job $1, the oldest. No row: there is none. A claim may open one in the next moment.
SELECT scheduled_for FROM run_lease WHERE job_id = $1 ORDER BY scheduled_for LIMIT 1
