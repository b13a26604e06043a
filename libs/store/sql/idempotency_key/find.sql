-- What the first call with the key $4 of caller $2 of tenant $1 for the calls $3 was, and its answer.
SELECT body_hash, answer FROM idempotency_key WHERE tenant_id = $1 AND caller = $2 AND route = $3 AND key = $4
