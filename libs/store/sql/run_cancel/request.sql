-- Asks the workers that hold the runs with the keys ($1, $2) to stop, for the reason $3. The first reason stays. The
-- caller has locked the leases in a statement before.
UPDATE run_lease l SET cancel_requested = esc_now(), cancel_reason = $3::text::run_reason
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(job_id, scheduled_for)
WHERE l.job_id = k.job_id AND l.scheduled_for = k.scheduled_for AND l.session_id IS NOT NULL
  AND l.cancel_requested IS NULL
