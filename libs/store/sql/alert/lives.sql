-- The lives of the locked alerts $1, and how often each is told again, in milliseconds (NULL: as by default). Asked after
-- the locks.
SELECT a.id, a.acknowledged_at IS NOT NULL AS acknowledged, a.silenced_until, a.resolved_at IS NOT NULL AS resolved, a.untold,
       a.next_repeat_at, a.to_tell, a.count, a.cause, a.detail, a.acknowledged_by, a.resolved_at, esc_now() AS at,
       jsonb_path_query_first(coalesce(j.definition -> 'alert' -> 'repeat', c.definition -> 'repeat'),
                              '$ ? (@ >= 0 && @ < 1e15)')::bigint AS repeat
FROM alert a
LEFT JOIN job j ON j.id = a.job_id
LEFT JOIN check_in c ON c.id = a.check_in_id
WHERE a.id = ANY($1::uuid[])
