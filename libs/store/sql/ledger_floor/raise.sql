-- Raises the ledger's floor to $1, after the transactions that hold it have ended. No row: it is as high already.
UPDATE ledger_floor SET floor = $1 WHERE floor < $1 RETURNING floor
