-- Changes channels; $1..$3 are arrays of one length: id, url, secret. The caller holds the rows' locks.
UPDATE alert_channel a SET url = c.url, secret = c.secret
FROM unnest($1::uuid[], $2::text[], $3::text[]) AS c(id, url, secret)
WHERE a.id = c.id
