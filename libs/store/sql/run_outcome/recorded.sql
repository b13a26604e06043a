-- How attempts ended that hold no lease any more. $1..$4 are arrays of one length: job_id, scheduled_for, attempt,
-- token. $5, $6: the first and last scheduled_for. A missing one is in nobody's ledger under that token.
SELECT k.job_id, k.scheduled_for, k.attempt, r.state::text AS state
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[]) AS k(job_id, scheduled_for, attempt, token)
JOIN run r ON r.job_id = k.job_id AND r.scheduled_for = k.scheduled_for AND r.attempt = k.attempt AND r.token = k.token
WHERE r.scheduled_for BETWEEN $5 AND $6 AND r.state <> 'PLANNED'
UNION ALL
SELECT k.job_id, k.scheduled_for, k.attempt, o.state::text AS state
FROM unnest($1::uuid[], $2::timestamptz[], $3::integer[], $4::bigint[]) AS k(job_id, scheduled_for, attempt, token)
JOIN run_outcome o ON o.job_id = k.job_id AND o.scheduled_for = k.scheduled_for AND o.attempt = k.attempt
    AND o.token = k.token AND NOT o.final
WHERE o.scheduled_for BETWEEN $5 AND $6
