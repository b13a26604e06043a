-- Keeps the ledger's floor as it is until the caller's transaction ends, so that nothing is inserted below it. One row.
SELECT floor FROM ledger_floor FOR SHARE
