-- Locks the definitions of the jobs $1, in order.
SELECT id FROM job WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE
