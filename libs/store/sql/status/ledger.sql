-- The ledger: its floor, how many days it keeps through today, the oldest of them (NULL: none), and the bytes of all its
-- partitions with their indexes. One row. MATERIALIZED: no name is read as a day before it is known to be a partition's.
WITH partition AS MATERIALIZED (
    SELECT i.inhparent = 'run'::regclass AS has_runs, i.inhrelid AS part, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent IN ('run'::regclass, 'run_output'::regclass, 'run_outcome'::regclass)
)
SELECT f.floor,
       count(*) FILTER (WHERE p.has_runs AND p.day <= today.day) AS days,
       min(p.day) FILTER (WHERE p.has_runs) AS oldest,
       coalesce(sum(pg_total_relation_size(p.part)), 0)::bigint AS bytes
FROM ledger_floor f
CROSS JOIN (SELECT ((SELECT esc_now()) AT TIME ZONE 'UTC')::date AS day) today
LEFT JOIN partition p ON true
GROUP BY f.floor
