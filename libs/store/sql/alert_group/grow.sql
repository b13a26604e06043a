-- So many jobs ($2) more belong to the groups that the alerts $1 stand for (arrays of one length).
UPDATE alert a SET count = a.count + n.count FROM unnest($1::uuid[], $2::bigint[]) AS n(id, count) WHERE a.id = n.id
