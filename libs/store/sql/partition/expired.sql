-- The partitions of days that have ended by $1, the oldest first; of a day first the one with the runs, which decides
-- whether it goes.
SELECT p.relname AS base, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid JOIN pg_class p ON p.oid = i.inhparent
WHERE i.inhparent IN ('run'::regclass, 'run_output'::regclass, 'run_outcome'::regclass)
  AND to_date(right(c.relname, 8), 'YYYYMMDD') + 1 <= ($1::timestamptz AT TIME ZONE 'UTC')::date
ORDER BY day, p.relname <> 'run', base
