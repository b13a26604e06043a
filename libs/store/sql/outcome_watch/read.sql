-- Through when ends of runs were looked at, the clock, and the instant below which the ledger keeps nothing. One row.
SELECT o.through, esc_now() AS at, f.floor FROM outcome_watch o, ledger_floor f
