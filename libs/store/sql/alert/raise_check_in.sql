-- Opens an alert for each check-in, or adds to the one that is open; $1..$11 are arrays of one length: id of the new alert,
-- tenant_id, check_in_id, first and last instant, how many, cause, detail, severity, labels, milliseconds until it is told
-- again (NULL: never). A row for each; the id is the given one when the alert was opened by this.
INSERT INTO alert (id, tenant_id, check_in_id, subject, first_occurrence, last_occurrence, opened_at, count, kind, cause, detail,
                   severity, labels, next_repeat_at)
SELECT n.id, n.tenant_id, n.check_in_id, 'CHECK_IN', n.first, n.last, esc_now(), n.count, 'CHECK_IN', n.cause, n.detail,
       n.severity, n.labels, esc_now() + n.repeat * interval '1 millisecond'
FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::text[], $8::text[],
            $9::text[], $10::jsonb[], $11::bigint[])
    AS n(id, tenant_id, check_in_id, first, last, count, cause, detail, severity, labels, repeat)
ORDER BY n.check_in_id
ON CONFLICT (check_in_id, kind) WHERE resolved_at IS NULL AND subject = 'CHECK_IN'
DO UPDATE SET count = alert.count + excluded.count,
              first_occurrence = least(alert.first_occurrence, excluded.first_occurrence),
              last_occurrence = greatest(alert.last_occurrence, excluded.last_occurrence),
              cause = excluded.cause, detail = excluded.detail
RETURNING id, check_in_id, opened_at
