-- Stores channels of tenant $1, created at $2; $3..$10 are arrays of one length: id, name, kind, url, target (NULL: a webhook),
-- secret (NULL: none), accepts, system (NULL: as the tenant is). Fails on alert_channel_by_name when the tenant has a channel
-- of that name.
INSERT INTO alert_channel (id, tenant_id, created_at, system, name, kind, url, secret, target, accepts)
SELECT n.id, $1, $2, n.system, n.name, n.kind, n.url, n.secret, n.target, n.accepts
FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[], $7::jsonb[], $8::text[], $9::jsonb[], $10::boolean[])
    AS n(id, name, kind, url, target, secret, accepts, system)
ORDER BY n.name
