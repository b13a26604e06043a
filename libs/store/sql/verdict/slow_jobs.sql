-- Up to $2 jobs after $1, by id, whose owners ask to be told of anything but deadlines, with the milliseconds that an attempt may
-- take. NULL: nobody is to be told that one takes longer, as of a job that is paused or whose owners want no alert: its runs never
-- get a verdict, and would keep others out. No row: there are no more.
SELECT j.id, CASE WHEN j.paused_at IS NULL AND NOT coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false)
                  THEN jsonb_path_query_first(j.definition, '$.alert.on.runtime_over ? (@ > 0 && @ < 1e15)')::bigint END AS over
FROM job j
WHERE j.id > $1 AND j.definition -> 'alert' -> 'on' IS NOT NULL AND j.deleted_at IS NULL
ORDER BY j.id LIMIT $2
