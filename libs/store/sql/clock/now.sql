-- The cell's clock. One row.
SELECT esc_now() AS now
