-- Forgets up to $2 rows of what became of runs before $1, and remembers up to which transaction that was: whoever has
-- not seen all of it is told so. A row for each that was forgotten.
WITH old AS (
    DELETE FROM run_event e
    USING (SELECT id FROM run_event WHERE at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED) o
    WHERE e.id = o.id
    RETURNING e.xid
), through AS (
    UPDATE run_event_floor f SET xid = greatest(f.xid, (SELECT max(xid) FROM old)) WHERE EXISTS (SELECT FROM old)
)
SELECT xid FROM old
