-- Moves the planner's cursors along with definitions that were changed; $1..$4 are arrays of one length: job_id, the
-- new generation, whether its runs are planned anew, the first instant of the new schedule after the change (NULL:
-- none). A cursor never jumps over an instant that was not planned: it only goes back (least ignores NULL).
UPDATE job_cursor k
SET next_fire_at = CASE WHEN c.replans THEN least(k.next_fire_at, c.first_at) ELSE k.next_fire_at END,
    generation = c.generation, broken = false
FROM unnest($1::uuid[], $2::bigint[], $3::boolean[], $4::timestamptz[]) AS c(job_id, generation, replans, first_at)
WHERE k.job_id = c.job_id
