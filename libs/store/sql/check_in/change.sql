-- Gives the locked check-in $1 the definition $2 at $3, paused since $4 (NULL: not) and deleted at $5 (NULL: not). If $6, what
-- was expected until then is forgotten, and it is looked at again at $7 (NULL: never); else what is due stays due.
UPDATE check_in
SET definition = $2, updated_at = $3, paused_at = $4, deleted_at = $5, generation = generation + 1,
    judge_at = CASE WHEN $6 THEN $7 ELSE judge_at END,
    judged_through = CASE WHEN $6 THEN $3 ELSE judged_through END,
    looked_through = CASE WHEN $6 THEN $3 ELSE looked_through END,
    started_at = CASE WHEN NOT $6 THEN started_at END
WHERE id = $1
