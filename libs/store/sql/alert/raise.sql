-- Opens an alert of kind $1 for each job, or adds to the one that is open; $2..$9 are arrays of one length: id of the new
-- alert, tenant_id, job_id, first and last occurrence, how many, cause, detail. A row for each job; the id is the
-- given one when the alert was opened by this.
INSERT INTO alert (id, tenant_id, job_id, first_occurrence, last_occurrence, opened_at, count, kind, cause, detail)
SELECT n.id, n.tenant_id, n.job_id, n.first, n.last, esc_now(), n.count, $1, n.cause, n.detail
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::timestamptz[], $7::bigint[], $8::text[], $9::text[])
    AS n(id, tenant_id, job_id, first, last, count, cause, detail)
ORDER BY n.job_id
ON CONFLICT (job_id, kind) WHERE resolved_at IS NULL
DO UPDATE SET count = alert.count + excluded.count,
              first_occurrence = least(alert.first_occurrence, excluded.first_occurrence),
              last_occurrence = greatest(alert.last_occurrence, excluded.last_occurrence),
              cause = CASE WHEN excluded.last_occurrence > alert.last_occurrence THEN excluded.cause ELSE alert.cause END,
              detail = CASE WHEN excluded.last_occurrence > alert.last_occurrence THEN excluded.detail ELSE alert.detail END
RETURNING id, job_id, opened_at
