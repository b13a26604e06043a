-- Gives tenant $1 the weight $2 and the limits $3 (runs with workers at a time) and $4 (starts a second); NULL is none.
-- No row was written: there is no such tenant. Waits for a claim that holds the tenant, and applies from the next one on.
UPDATE tenant SET weight = $2, max_running = $3, max_starts_per_second = $4 WHERE id = $1
