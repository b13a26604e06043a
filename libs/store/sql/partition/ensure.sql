-- Makes the ledger's missing partitions of the days $1 through $2. One row: how many were made.
SELECT esc_make_partitions($1, $2) AS made
