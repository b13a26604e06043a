-- How many invoices each customer got for each of the occurrences $1 (text[]); no row for who got none.
SELECT occurrence, customer, count(*) FROM invoice WHERE occurrence = ANY ($1) GROUP BY occurrence, customer
