-- Takes the planner's cursor of job $1 to generation $2 and back to $3 at most: it never jumps over an instant that was
-- not planned (least ignores NULL). What is broken stays so: the definition is the same.
UPDATE job_cursor SET next_fire_at = least(next_fire_at, $3), generation = $2 WHERE job_id = $1
