-- Moves the paces of the tenants $1, which the caller has locked, to $2: their next free slots.
UPDATE catch_up_pace p SET next_at = n.next_at
FROM unnest($1::uuid[], $2::timestamptz[]) AS n(tenant_id, next_at)
WHERE p.tenant_id = n.tenant_id
