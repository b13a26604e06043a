-- The number of the next outage. One row.
SELECT next FROM outage
