-- Through when ends of runs were looked at, the clock, the instant below which the ledger keeps nothing, what can be seen now,
-- and what the last look could see (NULL: that is not known, or was on another server, or on this one before it was
-- restored). The server is its identifier with its timeline. One row.
SELECT o.through, esc_now() AS at, f.floor, s.now::text AS snapshot, s.server,
       CASE WHEN o.server = s.server AND pg_snapshot_xmax(o.seen::pg_snapshot) <= pg_snapshot_xmax(s.now) THEN o.seen END AS seen
FROM outcome_watch o, ledger_floor f,
     (SELECT pg_current_snapshot() AS now, c.system_identifier # (esc_timeline()::bigint << 32) AS server
      FROM pg_control_system() c) s
