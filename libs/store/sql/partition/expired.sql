-- The partitions of days that have ended by $1, the oldest first; of a day first the one with the runs, which decides
-- whether it goes. MATERIALIZED: no name is read as a day before it is known to be a partition's.
WITH partition AS MATERIALIZED (
    SELECT p.relname AS base, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
    WHERE i.inhparent IN ('run'::regclass, 'run_output'::regclass, 'run_outcome'::regclass)
)
SELECT base, day FROM partition
WHERE day + 1 <= ($1::timestamptz AT TIME ZONE 'UTC')::date
ORDER BY day, base <> 'run', base
