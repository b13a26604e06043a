-- What can be seen now, for whoever has seen what snapshot $1 sees (NULL: begins now). One row: the snapshot, the server,
-- whether events that $1 does not see were forgotten, and whether $1 knows transactions that this server has yet to begin:
-- then it is of another one, or of this one before it was restored. The server is its identifier with its timeline: a replica
-- that was promoted gives numbers of transactions again that the lost primary had given.
SELECT s.now::text AS snapshot, c.system_identifier # (esc_timeline()::bigint << 32) AS server,
       coalesce(f.xid >= pg_snapshot_xmin($1::text::pg_snapshot), false) AS forgotten,
       coalesce(pg_snapshot_xmax($1::text::pg_snapshot) > pg_snapshot_xmax(s.now), false) AS foreign_to_us
FROM (SELECT pg_current_snapshot() AS now) s, pg_control_system() c, run_event_floor f
