-- Locks the run of job $1 that waits for an earlier one, after the job's queued rows: whoever parks it or wakes it is
-- done with it then. No row: none waits.
SELECT job_id FROM run_parked WHERE job_id = $1 FOR UPDATE
