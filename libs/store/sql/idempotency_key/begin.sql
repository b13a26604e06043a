-- Makes the key $4 of caller $2 of tenant $1 for the calls $3 known, with the body's hash $5; the answer follows. A call
-- with the same key waits here until the other one has committed. A key older than $6 hours begins anew.
-- One row: this call is the first of its key. No row: another one was; it is locked.
INSERT INTO idempotency_key AS k (tenant_id, created_at, caller, route, key, body_hash, answer)
VALUES ($1, esc_now(), $2, $3, $4, $5, ''::bytea)
ON CONFLICT (tenant_id, caller, route, key) DO UPDATE
SET created_at = excluded.created_at, body_hash = excluded.body_hash, answer = excluded.answer
WHERE k.created_at < excluded.created_at - make_interval(hours => $6)
RETURNING true AS first
