-- What became of runs of tenant $1 that snapshot $3 sees and $2 does not, by id, from event $5 of row $4 on (NULL: from the
-- first): of at most $7 rows, and at most $8 events. Only runs of job $6 (NULL: of any), and none from before what the tenant
-- sees. A row for each event, and one without an event for each of those rows that has none to show. No row: that is all.
WITH first AS MATERIALIZED ( -- by transaction, never by walking ids: `+ 0` keeps the planner from that
    SELECT CASE WHEN $4::bigint IS NOT NULL THEN $4 ELSE (
        SELECT min(e.id + 0) FROM run_event e
        WHERE e.tenant_id = $1 AND e.xid >= pg_snapshot_xmin($2::text::pg_snapshot)
          AND NOT pg_visible_in_snapshot(e.xid, $2::text::pg_snapshot)
    ) END AS id
), page AS MATERIALIZED (
    SELECT e.* FROM run_event e
    WHERE e.id >= (SELECT id FROM first) AND e.tenant_id = $1
      AND NOT pg_visible_in_snapshot(e.xid, $2::text::pg_snapshot) AND pg_visible_in_snapshot(e.xid, $3::text::pg_snapshot)
    ORDER BY e.id
    LIMIT $7
), told AS MATERIALIZED ( -- cut before the runs are looked up: one row may hold all runs of a job
    SELECT p.id, p.at, p.phase, p.reason, u.* FROM page p
    LEFT JOIN LATERAL (
        SELECT u.* FROM unnest(p.job_id, p.scheduled_for, p.attempt) WITH ORDINALITY AS u(job_id, scheduled_for, attempt, place)
        WHERE (p.id > $4 OR u.place > $5 OR $4 IS NULL) AND ($6::uuid IS NULL OR u.job_id = $6)
          AND u.scheduled_for >= coalesce((
              SELECT esc_now() - l.history_days * interval '1 day' FROM tenant_limit l WHERE l.tenant_id = $1
          ), '-infinity')
    ) u ON true
    ORDER BY p.id, u.place
    LIMIT $8
)
SELECT t.id, t.at, t.phase AS event_phase, t.reason AS event_reason, t.place, t.attempt AS event_attempt, j.id AS job_id,
       j.name AS job_name, v.scheduled_for, v.due_at, v.generation, v.term, v.origin::text AS origin, v.phase,
       v.reason::text AS reason, v.attempt, v.token, w.name AS worker_name, v.claimed_at, v.accepted_at, v.finished_at,
       o.exit_status, NULL::bytea AS tail, o.error
FROM told t
LEFT JOIN LATERAL (SELECT * FROM run_phase v WHERE v.job_id = t.job_id AND v.scheduled_for = t.scheduled_for LIMIT 1) v ON true
LEFT JOIN job j ON j.id = v.job_id
LEFT JOIN worker_session w ON w.id = v.worker
LEFT JOIN run_output o ON o.job_id = t.job_id AND o.scheduled_for = t.scheduled_for AND o.attempt = t.attempt
ORDER BY t.id, t.place
