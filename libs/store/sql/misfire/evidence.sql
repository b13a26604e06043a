-- Who could have taken the runs that were not handed out in time. $1..$4 are arrays of one length: tenant_id, queue, when
-- they were due, by when they had to start. A row for each, by its place from 1: whether a dispatcher was renewed in that
-- time, whether one lived through it and was not (but for a second or two at its ends), and whether a worker of the queue
-- was connected.
SELECT k.place,
       EXISTS (SELECT FROM dispatcher d WHERE d.started_at <= k.start_by AND d.renewed_at >= k.due_at
                 AND NOT coalesce(d.silent_from <= k.due_at + s.slack AND d.silent_through >= k.start_by - s.slack, false))
           AS renewed,
       EXISTS (SELECT FROM dispatcher d WHERE d.started_at <= k.due_at AND d.renewed_at >= k.start_by
                 AND d.silent_from <= k.due_at + s.slack AND d.silent_through >= k.start_by - s.slack) AS silent,
       EXISTS (SELECT FROM worker_session w
               WHERE k.queue = ANY(w.queues) AND (w.tenant_id IS NULL OR w.tenant_id = k.tenant_id)
                 AND w.connected_at <= k.start_by AND (w.ended_at IS NULL OR w.ended_at >= k.due_at)) AS worker
FROM unnest($1::uuid[], $2::text[], $3::timestamptz[], $4::timestamptz[]) WITH ORDINALITY
    AS k(tenant_id, queue, due_at, start_by, place), (SELECT interval '2 seconds' AS slack) s
ORDER BY k.place
