-- Jobs of which a run is parked and none is open: somebody ended one without waking the other. At most 1,000; none is
-- the rule. OFFSET 0 keeps each look-up an index look-up, so that leases are not read as a whole.
SELECT p.job_id FROM run_parked p
WHERE NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = p.job_id OFFSET 0)
ORDER BY p.job_id LIMIT 1000
