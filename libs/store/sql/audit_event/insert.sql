-- Records changes made by $2 on behalf of tenant $1; $3..$5 are arrays of one length: action, object, detail.
INSERT INTO audit_event (tenant_id, actor, action, object, detail)
SELECT $1, $2, e.action, e.object, e.detail
FROM unnest($3::text[], $4::text[], $5::jsonb[]) AS e(action, object, detail)
