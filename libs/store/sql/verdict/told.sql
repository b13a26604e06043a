-- Which of the occurrences ($1 job_id, $2 scheduled_for) have verdicts already, and of which kinds. No row: none has.
SELECT v.job_id, v.occurrence, v.kind
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, occurrence) JOIN verdict v USING (job_id, occurrence)
