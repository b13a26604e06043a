-- The clock, the ledger's floor, and from where on job $1 is not planned yet (NULL: its schedule has no more). One row.
SELECT esc_now() AS now, f.floor, c.next_fire_at FROM ledger_floor f LEFT JOIN job_cursor c ON c.job_id = $1
