-- Notes why the runs ($1, $2), which have just ended in the caller's transaction, were not handed out in time: $3. $4, $5:
-- the first and last scheduled_for, so that only their partitions are touched.
UPDATE run_outcome o SET cause = k.cause::misfire_cause
FROM unnest($1::uuid[], $2::timestamptz[], $3::text[]) AS k(job_id, scheduled_for, cause)
WHERE o.job_id = k.job_id AND o.scheduled_for = k.scheduled_for AND o.scheduled_for BETWEEN $4 AND $5
  AND o.attempt = 0 AND o.final
