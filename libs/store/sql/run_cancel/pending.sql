-- The attempts that workers of dispatcher $1 have been asked to stop and hold still, with the reasons. No row is the rule.
SELECT l.job_id, l.scheduled_for, l.attempt, l.token, l.session_id, l.cancel_reason::text AS cancel_reason
FROM run_lease l JOIN worker_session w ON w.id = l.session_id AND w.dispatcher_id = $1
WHERE l.cancel_requested IS NOT NULL
