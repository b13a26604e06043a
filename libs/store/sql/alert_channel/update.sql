-- Changes channels; $1..$7 are arrays of one length: id, kind, url, target, secret, accepts, system. The caller holds the rows'
-- locks.
UPDATE alert_channel a
SET kind = c.kind, url = c.url, target = c.target, secret = c.secret, accepts = c.accepts, system = c.system
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::jsonb[], $5::text[], $6::jsonb[], $7::boolean[])
    AS c(id, kind, url, target, secret, accepts, system)
WHERE a.id = c.id
