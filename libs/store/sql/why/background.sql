-- What the ledger doesn't say of the run of job $1 scheduled for $2: the name of the ticker of term $3 (NULL: not known),
-- and why the run was not handed out in time (NULL: it was, or nobody knows). One row.
SELECT (SELECT t.name FROM term t WHERE t.role = 'ticker' AND t.revision = $3) AS ticker,
       (SELECT o.cause::text FROM run_outcome o
        WHERE o.job_id = $1 AND o.scheduled_for = $2 AND o.attempt = 0 AND o.final) AS cause
