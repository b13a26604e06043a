-- Who could have taken the runs that were not handed out in time. $1..$4 are arrays of one length: tenant_id, queue, when
-- they were due, by when they had to start. A row for each, by its place from 1: whether a dispatcher was renewed in that
-- time, whether one lived through it and was not (but for a second or two at its ends), whether a worker of the queue was
-- connected, and whether a limit of the tenant or of its queue held runs back.
SELECT k.place,
       EXISTS (SELECT FROM dispatcher d WHERE d.started_at <= k.start_by AND d.renewed_at >= k.due_at
                 AND NOT coalesce(d.silent_from <= k.due_at + s.slack AND d.silent_through >= k.start_by - s.slack, false))
           AS renewed,
       EXISTS (SELECT FROM dispatcher d WHERE d.started_at <= k.due_at AND d.renewed_at >= k.start_by
                 AND d.silent_from <= k.due_at + s.slack AND d.silent_through >= k.start_by - s.slack) AS silent,
       EXISTS (SELECT FROM worker_session w
               WHERE k.queue = ANY(w.queues) AND (w.tenant_id IS NULL OR w.tenant_id = k.tenant_id)
                 AND w.connected_at <= k.start_by AND (w.ended_at IS NULL OR w.ended_at >= k.due_at)) AS worker,
       EXISTS (SELECT FROM tenant t
               WHERE t.id = k.tenant_id AND t.held_from <= k.start_by AND t.held_through >= k.due_at)
       OR EXISTS (SELECT FROM queue_limit l
                  WHERE l.tenant_id = k.tenant_id AND l.queue = k.queue AND l.held_from <= k.start_by AND l.held_through >= k.due_at)
           AS held
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY
    AS k(tenant_id, queue, due_at, start_by, place), (SELECT interval '2 seconds' AS slack) s
ORDER BY k.place
