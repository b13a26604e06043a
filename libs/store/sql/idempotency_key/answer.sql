-- Keeps the answer $5 to the first call with the key $4 of caller $2 of tenant $1 for the calls $3, in the transaction that
-- began it.
UPDATE idempotency_key SET answer = $5 WHERE tenant_id = $1 AND caller = $2 AND route = $3 AND key = $4
