-- Jobs of which a run is parked and none is open: somebody ended one without waking the other. At most 1,000; none is
-- the rule.
SELECT p.job_id FROM run_parked p
WHERE NOT EXISTS (SELECT FROM run_lease l WHERE l.job_id = p.job_id)
ORDER BY p.job_id LIMIT 1000
