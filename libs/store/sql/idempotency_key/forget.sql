-- Deletes up to $2 keys that are older than $1 hours, the oldest first; those that somebody else holds are left out.
DELETE FROM idempotency_key k
USING (SELECT tenant_id, caller, route, key FROM idempotency_key
       WHERE created_at < (SELECT esc_now()) - make_interval(hours => $1)
       ORDER BY created_at LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE k.tenant_id = old.tenant_id AND k.caller = old.caller AND k.route = old.route AND k.key = old.key
