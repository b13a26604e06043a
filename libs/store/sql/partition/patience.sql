-- A new partition locks the whole ledger: the caller's transaction waits for that no longer than $1 milliseconds,
-- because everybody else waits behind it.
SELECT set_config('lock_timeout', $1, true)
