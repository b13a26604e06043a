-- Locks the fence of role $1 for raising, after the transactions that hold it have ended. One row.
SELECT revision, holder FROM fence WHERE role = $1 FOR UPDATE
