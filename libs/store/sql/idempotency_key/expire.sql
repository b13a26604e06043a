-- Deletes up to $2 keys from before $1, the oldest first; those that somebody else holds are left out.
DELETE FROM idempotency_key k
USING (SELECT tenant_id, caller, route, key FROM idempotency_key
       WHERE created_at < $1 ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE k.tenant_id = old.tenant_id AND k.caller = old.caller AND k.route = old.route AND k.key = old.key
