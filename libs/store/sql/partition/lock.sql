-- Locks the partition of table $1 for the day $2, so that no run of it can be opened. One row: false when there is none.
SELECT esc_lock_partition($1, $2) AS there
