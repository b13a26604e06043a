-- Drops the partition of table $1 for the day $2, which the caller has locked.
SELECT esc_drop_partition($1, $2)
