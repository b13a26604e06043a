-- Stores channels of tenant $1, created at $2; $3..$6 are arrays of one length: id, name, url, secret (NULL: unsigned).
-- Fails on alert_channel_by_name when the tenant has a channel of that name.
INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url, secret)
SELECT n.id, $1, $2, n.name, 'WEBHOOK', n.url, n.secret
FROM unnest($3::uuid[], $4::text[], $5::text[], $6::text[]) AS n(id, name, url, secret)
ORDER BY n.name
