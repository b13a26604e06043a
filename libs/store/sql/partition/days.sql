-- The days that have a partition of the ledger, the latest first.
SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = 'run'::regclass
ORDER BY day DESC
