-- Notes a report of kind $2 of the locked check-in $1, with the message $3, unless it has had $4 in the last minute; the 500
-- newest of each kind are kept, so that no starts drive out a success that is still to be judged. A failure is looked at now,
-- a start when its maximum runtime and the time to settle, $5 ms, are over. No row: there were too many.
WITH now AS MATERIALIZED (
    SELECT esc_now() AS at
), allowed AS MATERIALIZED (
    SELECT c.id, now.at FROM check_in c, now
    WHERE c.id = $1
      AND (SELECT count(*) FROM (SELECT FROM check_in_report r
                                 WHERE r.check_in_id = $1 AND r.at > now.at - interval '1 minute' LIMIT $4) r) < $4
), noted AS (
    INSERT INTO check_in_report (check_in_id, at, kind, message) SELECT id, at, $2, $3 FROM allowed
), old AS (
    DELETE FROM check_in_report r USING allowed
    WHERE r.check_in_id = $1 AND r.kind = $2
      AND r.at < (SELECT n.at FROM check_in_report n WHERE n.check_in_id = $1 AND n.kind = $2 ORDER BY n.at DESC OFFSET 499 LIMIT 1)
)
UPDATE check_in c
SET last_start_at = CASE WHEN $2 = 'START' THEN a.at ELSE c.last_start_at END,
    last_success_at = CASE WHEN $2 = 'SUCCESS' THEN a.at ELSE c.last_success_at END,
    last_failure_at = CASE WHEN $2 = 'FAIL' THEN a.at ELSE c.last_failure_at END,
    judge_at = CASE WHEN c.paused_at IS NOT NULL THEN NULL
                    WHEN $2 = 'FAIL' THEN least(c.judge_at, a.at)
                    WHEN $2 = 'START' THEN least(c.judge_at, a.at + ((c.definition ->> 'max_runtime')::bigint + $5::bigint)
                                                              * interval '1 millisecond')
                    ELSE c.judge_at END
FROM allowed a
WHERE c.id = a.id
RETURNING c.id, c.name
