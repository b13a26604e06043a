-- The customers who got an invoice for occurrence $1 so far. No row: nobody.
SELECT DISTINCT customer FROM invoice WHERE occurrence = $1
