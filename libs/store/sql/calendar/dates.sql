-- The dates of versions of calendars; $1..$3 are arrays of one length: tenant_id, name, version. A missing one does not
-- exist.
SELECT v.tenant_id, v.name, v.version, v.dates
FROM calendar_version v JOIN unnest($1::uuid[], $2::text[], $3::bigint[]) AS k(tenant_id, name, version)
    USING (tenant_id, name, version)
