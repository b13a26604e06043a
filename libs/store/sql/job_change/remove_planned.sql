-- Removes from the ledger exactly the runs ($1, $2) that were just taken out of the queue; $3, $4: the first and last
-- scheduled_for among them.
DELETE FROM run USING unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
WHERE run.job_id = k.job_id AND run.scheduled_for = k.scheduled_for AND run.scheduled_for BETWEEN $3 AND $4
