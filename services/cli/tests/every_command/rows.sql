-- Who works, and who leads. What counts as alive is so for longer than any test takes.
INSERT INTO dispatcher (id, started_at, renewed_at, pid, name, address, http)
VALUES ('00000000-0000-4000-8000-0000000000d1', esc_now(), esc_now() + interval '1 day', 4711, 'dispatcher-1', 'http://10.0.0.7:7411', 'http://10.0.0.7:7412');
INSERT INTO worker_session (id, dispatcher_id, connected_at, slots, name, version, queues)
VALUES ('00000000-0000-4000-8000-0000000000a1', '00000000-0000-4000-8000-0000000000d1', esc_now(), 16, 'agent-1', '0.1.0', '{default}');
INSERT INTO term (role, revision, holder, began_at, last_cycle_at, planned_through, pid, name, http)
VALUES ('ticker', 42, '00000000-0000-4000-8000-0000000000f1', esc_now(), esc_now() + interval '1 day', esc_now(), 4712, 'ticker-1', 'http://10.0.0.7:7413');
UPDATE fence SET revision = 42, holder = '00000000-0000-4000-8000-0000000000f1' WHERE role = 'ticker';

-- Two days' runs.
INSERT INTO run (job_id, tenant_id, worker, scheduled_for, due_at, claimed_at, accepted_at, finished_at, generation, term, token,
                 attempt, origin, state, reason)
SELECT j.id, j.tenant_id, CASE WHEN s.state <> 'SKIPPED' THEN '00000000-0000-4000-8000-0000000000a1'::uuid END, s.at, s.at,
       s.at, s.at + interval '12 ms', s.at + interval '3 s', 1, 42, s.token, s.attempt, 'SCHEDULE', s.state::run_state, s.reason::run_reason
FROM job j, (
    SELECT '{ran}'::timestamptz AS at, 'FAILED' AS state, 'WORK_FAILED' AS reason, 1 AS attempt, 17592186044417 AS token
    UNION ALL SELECT '{ran}'::timestamptz - interval '1 day', 'SUCCEEDED', NULL, 1, 17592186044416
) s
WHERE j.name = 'invoices' OR (j.name LIKE 'rerun-%' AND s.state = 'FAILED');
INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, error, tail)
SELECT job_id, scheduled_for, attempt, CASE state WHEN 'FAILED' THEN 3 ELSE 0 END,
       CASE state WHEN 'FAILED' THEN 'the printer does not answer' ELSE '' END, convert_to(CASE state WHEN 'FAILED' THEN E'no paper\n' ELSE E'12 invoices\n' END, 'UTF8')
FROM run WHERE finished_at IS NOT NULL;
INSERT INTO run_outcome (job_id, tenant_id, worker, scheduled_for, at, claimed_at, accepted_at, token, attempt, state, reason, final)
SELECT job_id, tenant_id, worker, scheduled_for, finished_at, claimed_at, accepted_at, token, attempt, state, reason, true
FROM run WHERE state = 'FAILED';

-- One alert for each job that has one, told to the channel.
INSERT INTO alert (id, tenant_id, job_id, first_occurrence, last_occurrence, opened_at, kind, cause, detail)
SELECT ('00000000-0000-4000-8000-00000000e00' || row_number() OVER (ORDER BY name))::uuid, tenant_id, id, esc_now(), esc_now(),
       esc_now(), 'NO_SUCCESS', 'FAILED', 'the run failed: exit status 3'
FROM job WHERE name = 'invoices' OR name LIKE 'alert-%';
INSERT INTO alert_event (alert_id, at, what) SELECT id, opened_at, 'OPENED' FROM alert;
INSERT INTO alert_delivery (id, alert_id, channel_id, created_at, next_try_at, delivered_at, tries, last_status, event, body)
SELECT '00000000-0000-4000-8000-0000000000b1', a.id, c.id, esc_now(), esc_now(), esc_now(), 1, 204, 'OPENED', '{}'
FROM alert a JOIN job j ON j.id = a.job_id, alert_channel c WHERE j.name = 'invoices' AND c.name = 'ops';

-- A watchdog answers every test of a channel at once.
CREATE FUNCTION answer_test() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.taken_at := NEW.created_at; NEW.ended_at := NEW.created_at; NEW.received := true; NEW.status := 204;
    RETURN NEW;
END $$;
CREATE TRIGGER answer_test BEFORE INSERT ON channel_test FOR EACH ROW EXECUTE FUNCTION answer_test();
