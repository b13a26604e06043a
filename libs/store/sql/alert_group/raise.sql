-- Opens the alert that stands for all jobs of a tenant which one trouble explains, unless it is open; $1..$3 are arrays of one
-- length: id, tenant_id, kind of trouble; told again after $4 milliseconds. A row for each: the id is the given one when this
-- opened it.
INSERT INTO alert AS a (id, tenant_id, opened_at, next_repeat_at, count, kind, cause, detail, subject, severity, system_key)
SELECT n.id, n.tenant_id, now.at, now.at + $4::bigint * interval '1 millisecond', 0, n.kind, n.kind,
       'jobs without success by their deadlines', 'SYSTEM', 'CRITICAL', 'jobs'
FROM unnest($1::uuid[], $2::uuid[], $3::text[]) AS n(id, tenant_id, kind), (SELECT esc_now() AS at) now
ORDER BY n.tenant_id, n.kind
ON CONFLICT (tenant_id, system_key, kind) WHERE resolved_at IS NULL AND subject = 'SYSTEM'
DO UPDATE SET count = a.count
RETURNING id, tenant_id, kind
