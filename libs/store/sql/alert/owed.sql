-- What is to be told of the alerts $1 of jobs, whose openings nobody was told of; deadlines of the first and last occurrence
-- come from their verdicts. OFFSET 0 keeps each look-up a primary key look-up. No row for an alert of anything else.
SELECT a.id, a.tenant_id, a.job_id, j.name AS job_name, j.queue, j.channels, a.first_occurrence, a.last_occurrence, a.count,
       a.kind, a.cause, a.detail, a.severity, a.labels,
       (SELECT v.deadline FROM verdict v WHERE v.job_id = a.job_id AND v.occurrence = a.first_occurrence AND v.kind = a.kind)
           AS first_deadline,
       (SELECT v.deadline FROM verdict v WHERE v.job_id = a.job_id AND v.occurrence = a.last_occurrence AND v.kind = a.kind)
           AS last_deadline
FROM alert a
CROSS JOIN LATERAL (
    SELECT j.name, coalesce(j.definition ->> 'queue', '') AS queue,
           ARRAY(SELECT jsonb_path_query(j.definition, '$.alert.channels[*] ? (@.type() == "string")') #>> '{}') AS channels
    FROM job j WHERE j.id = a.job_id
    OFFSET 0
) j
WHERE a.id = ANY($1::uuid[])
