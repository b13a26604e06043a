-- The ledger's floor. One row.
SELECT floor FROM ledger_floor
