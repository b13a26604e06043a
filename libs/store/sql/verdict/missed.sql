-- Why the occurrences ($1 job_id, $2 scheduled_for) that have no run were missed: records of a job don't overlap, so it is the
-- last one to begin by then. A row for each that is recorded.
SELECT k.job_id, k.scheduled_for, m.cause::text AS cause
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
CROSS JOIN LATERAL (
    SELECT m.last, m.cause FROM misfire m
    WHERE m.job_id = k.job_id AND m.first <= k.scheduled_for
    ORDER BY m.first DESC LIMIT 1
) m
WHERE m.last >= k.scheduled_for
