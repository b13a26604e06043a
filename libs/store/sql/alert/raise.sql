-- Opens an alert of kind $1 for each job, or adds to the one that is open; $2..$14 are arrays of one length: id of the new
-- alert, tenant_id, job_id, first and last occurrence, how many, cause, detail, severity, labels, milliseconds until it is
-- told again (NULL: never), whether nobody is told, and the alert that tells of the same (NULL: none). One that nobody was
-- told of is told with the first thing that is, after its silence, and not when it is acknowledged: as
-- model::alert::life::Life::on says. A row for each job; the id is the given one when this opened it.
INSERT INTO alert (id, tenant_id, job_id, first_occurrence, last_occurrence, opened_at, count, kind, cause, detail, severity,
                   labels, next_repeat_at, untold, explained_by)
SELECT n.id, n.tenant_id, n.job_id, n.first, n.last, esc_now(), n.count, $1, n.cause, n.detail, n.severity,
       n.labels, CASE WHEN NOT n.untold THEN esc_now() + n.repeat * interval '1 millisecond' END, n.untold, n.explained_by
FROM unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::timestamptz[], $6::timestamptz[], $7::bigint[], $8::text[], $9::text[],
            $10::text[], $11::jsonb[], $12::bigint[], $13::boolean[], $14::uuid[])
    AS n(id, tenant_id, job_id, first, last, count, cause, detail, severity, labels, repeat, untold, explained_by)
ORDER BY n.job_id
ON CONFLICT (job_id, kind) WHERE resolved_at IS NULL
DO UPDATE SET count = alert.count + excluded.count,
              first_occurrence = least(alert.first_occurrence, excluded.first_occurrence),
              last_occurrence = greatest(alert.last_occurrence, excluded.last_occurrence),
              cause = CASE WHEN excluded.last_occurrence > alert.last_occurrence THEN excluded.cause ELSE alert.cause END,
              detail = CASE WHEN excluded.last_occurrence > alert.last_occurrence THEN excluded.detail ELSE alert.detail END,
              next_repeat_at = CASE WHEN NOT alert.untold OR excluded.untold OR alert.acknowledged_at IS NOT NULL
                                    THEN alert.next_repeat_at
                                    WHEN alert.silenced_until > (SELECT esc_now()) THEN alert.silenced_until
                                    ELSE excluded.next_repeat_at END,
              explained_by = CASE WHEN excluded.untold THEN alert.explained_by END,
              untold = alert.untold AND (excluded.untold OR alert.acknowledged_at IS NOT NULL
                                         OR coalesce(alert.silenced_until > (SELECT esc_now()), false))
RETURNING id, job_id, opened_at, esc_now() AS at
