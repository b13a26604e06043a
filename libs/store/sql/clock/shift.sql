-- Moves the cell's clock by $1 milliseconds from the server's; for tests. One row.
UPDATE clock_shift SET shift = $1::bigint * interval '1 millisecond'
