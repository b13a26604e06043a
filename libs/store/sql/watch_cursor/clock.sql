-- The moment of judgement, asked for after the locks, and the instant below which the ledger keeps nothing. One row.
SELECT esc_now() AS at, floor FROM ledger_floor
