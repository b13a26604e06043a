-- What attempts show while they run. $1..$9 are arrays of one length: job_id, scheduled_for, attempt, token, session, offset,
-- fraction (NULL: not said), tail, note. $10, $11: the least and the greatest of the instants. What an attempt shows
-- counts while its session has it, and for the last words of one that has just ended; of several of a run the latest
-- attempt. A row for each run.
INSERT INTO run_live AS r (job_id, scheduled_for, at, "offset", fraction, attempt, tail, note)
SELECT DISTINCT ON (g.job_id, g.scheduled_for) g.job_id, g.scheduled_for, esc_now(), g.before, g.fraction, g.attempt, g.tail, g.note
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[], $5::uuid[], $6::bigint[], $7::float8[], $8::bytea[],
            $9::text[]) AS g(job_id, scheduled_for, attempt, token, session_id, before, fraction, tail, note)
WHERE EXISTS (
    SELECT FROM run_lease l
    WHERE l.job_id = g.job_id AND l.scheduled_for = g.scheduled_for AND l.attempt = g.attempt AND l.token = g.token
      AND l.session_id = g.session_id
) OR EXISTS (
    SELECT FROM run e
    WHERE e.job_id = g.job_id AND e.scheduled_for = g.scheduled_for AND e.attempt = g.attempt AND e.token = g.token
      AND e.worker = g.session_id AND e.scheduled_for BETWEEN $10 AND $11
)
ORDER BY g.job_id, g.scheduled_for, g.attempt DESC
ON CONFLICT (job_id, scheduled_for) DO UPDATE
SET at = excluded.at, "offset" = excluded."offset", fraction = excluded.fraction, attempt = excluded.attempt,
    tail = excluded.tail, note = excluded.note
WHERE excluded.attempt > r.attempt
   OR excluded.attempt = r.attempt AND excluded."offset" + octet_length(excluded.tail) >= r."offset" + octet_length(r.tail)
RETURNING r.job_id
