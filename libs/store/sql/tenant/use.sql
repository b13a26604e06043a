-- How many jobs the tenants $1 have, and how many runs of theirs are with workers.
SELECT t.id,
    (SELECT count(*) FROM job j WHERE j.tenant_id = t.id AND j.deleted_at IS NULL) AS jobs,
    (SELECT count(*) FROM run_lease l WHERE l.tenant_id = t.id AND l.session_id IS NOT NULL) AS running
FROM unnest($1::uuid[]) AS t(id)
