-- Gives the locked check-in $1 the definition $2 at $3, paused since $4 (NULL: not) and deleted at $5 (NULL: not). What was
-- expected until then is forgotten; it is looked at again at $6 (NULL: never).
UPDATE check_in
SET definition = $2, updated_at = $3, paused_at = $4, deleted_at = $5, judge_at = $6, judged_through = $3,
    looked_through = $3, started_at = NULL, generation = generation + 1
WHERE id = $1
