-- Makes the watchdog look again, at $1, at jobs whose definition was changed; $2 and $3 are arrays of one length:
-- job_id, the first instant of the new schedule after the change (NULL: none). What was not watched until now
-- (judge_at is NULL) is watched from that instant on; else the cursor only goes back.
UPDATE watch_cursor k
SET next_at = CASE WHEN k.judge_at IS NULL THEN c.first_at ELSE least(k.next_at, c.first_at) END,
    judge_at = least(k.judge_at, $1)
FROM unnest($2::uuid[], $3::timestamptz[]) AS c(job_id, first_at)
WHERE k.job_id = c.job_id
