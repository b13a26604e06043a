-- How many scheduled runs in a row have failed with the occurrences ($1 job_id, $2 scheduled_for), by the ledger: of the newest
-- 100 until then that ended by themselves. $3: the ledger keeps nothing before. A row for each.
SELECT k.job_id, k.scheduled_for,
       (SELECT count(*) FILTER (WHERE NOT e.beyond)
        FROM (SELECT bool_or(r.state = 'SUCCEEDED') OVER (ORDER BY r.scheduled_for DESC) AS beyond
              FROM (SELECT r.state, r.scheduled_for FROM run r
                    WHERE r.job_id = k.job_id AND r.scheduled_for BETWEEN $3 AND k.scheduled_for AND r.origin <> 'MANUAL'
                      AND r.state IN ('SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST')
                    ORDER BY r.scheduled_for DESC LIMIT 100) r) e) AS failures
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
