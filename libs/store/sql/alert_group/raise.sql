-- Opens the alert that stands for all jobs of a tenant which one trouble explains, or adds to the open one; $1..$4 are
-- arrays of one length: id, tenant_id, kind of trouble, how many jobs. A row for each: the id is the given one when this
-- opened it.
INSERT INTO alert (id, tenant_id, opened_at, count, kind, cause, detail, subject, severity, system_key)
SELECT n.id, n.tenant_id, esc_now(), n.count, n.kind, n.kind, '', 'SYSTEM', 'CRITICAL', 'jobs'
FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::bigint[]) AS n(id, tenant_id, kind, count)
ORDER BY n.tenant_id, n.kind
ON CONFLICT (tenant_id, system_key, kind) WHERE resolved_at IS NULL AND subject = 'SYSTEM'
DO UPDATE SET count = alert.count + excluded.count
RETURNING id, tenant_id, kind
