-- The tenant named $1, or of the id $2. No row: there is none.
SELECT t.id, t.name, t.created_at FROM tenant t WHERE t.name = $1 OR t.id = $2
