-- Where the planner's cursor of job $1 stands, which the caller has locked: from there on instants are the planner's.
SELECT next_fire_at FROM job_cursor WHERE job_id = $1
