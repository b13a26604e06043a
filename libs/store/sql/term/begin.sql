-- Begins the leadership $2 of role $1, held by $3 (pid $4, name $5, its pages $6), and closes those that nobody closed.
-- The caller holds the fence. Beginning again is harmless; a revision comes back with another holder only after etcd
-- was rebuilt, and then takes the place of the old one.
-- One row: the leadership before it (NULL: none), how far that had planned and when it last finished a cycle, the gap
-- since then, and the first occurrence that nobody has planned (NULL: none).
WITH at AS MATERIALIZED (
    SELECT esc_now() AS now
), before AS MATERIALIZED (
    SELECT t.revision, t.planned_through, coalesce(t.last_cycle_at, t.began_at) AS last_seen_at
    FROM term t WHERE t.role = $1 AND (t.revision, t.holder) <> ($2, $3)
    ORDER BY t.began_at DESC LIMIT 1
), closed AS (
    UPDATE term t SET ended_at = at.now, ended_how = 'LOST'
    FROM at WHERE t.role = $1 AND t.revision <> $2 AND t.ended_at IS NULL
), begun AS (
    INSERT INTO term AS t (role, revision, holder, began_at, predecessor, gap_ms, pid, name, http)
    SELECT $1, $2, $3, at.now, b.revision, ceil(extract(epoch FROM at.now - b.last_seen_at) * 1000)::bigint, $4, $5, $6
    FROM at LEFT JOIN before b ON true
    ON CONFLICT (role, revision) DO UPDATE
    SET holder = excluded.holder, pid = excluded.pid, name = excluded.name, http = excluded.http,
        ended_at = NULL, ended_how = NULL,
        began_at = CASE WHEN t.holder = excluded.holder THEN t.began_at ELSE excluded.began_at END,
        last_cycle_at = CASE WHEN t.holder = excluded.holder THEN t.last_cycle_at END,
        planned_through = CASE WHEN t.holder = excluded.holder THEN t.planned_through END
    RETURNING gap_ms
)
SELECT b.revision AS predecessor, b.planned_through, b.last_seen_at, n.gap_ms,
       (SELECT min(c.next_fire_at) FROM job_cursor c WHERE NOT c.broken) AS first_occurrence
FROM begun n LEFT JOIN before b ON true
