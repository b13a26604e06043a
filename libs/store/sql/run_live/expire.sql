-- Forgets what runs showed that ended, or were given up, ten minutes ago; at most $1. A row for each.
DELETE FROM run_live v
USING (
    SELECT o.job_id, o.scheduled_for FROM run_live o
    WHERE o.at < (SELECT esc_now()) - interval '10 minutes'
      -- Counted row by row: as a join it would read all leases.
      AND (SELECT count(*) FROM run_lease l WHERE l.job_id = o.job_id AND l.scheduled_for = o.scheduled_for) = 0
    ORDER BY o.at LIMIT $1
) old
WHERE v.job_id = old.job_id AND v.scheduled_for = old.scheduled_for
RETURNING v.job_id
