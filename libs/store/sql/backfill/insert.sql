-- Inserts those of the instants $3 of job $1 of tenant $2 that have no run, in order, due at $4: generation $5, trace $6.
-- With $7 they are queued too, the first at $4 and each one $8 milliseconds after the other: priority $9, queue $10, beside
-- each other (a job whose runs exclude each other has a backlog instead). $11, $12: the first and the last instant. The caller
-- holds the ledger's floor and the job's cursor.
-- A row for each run that is new.
WITH asked AS MATERIALIZED (
    SELECT a.scheduled_for, a.place FROM unnest($3::timestamptz[]) WITH ORDINALITY AS a(scheduled_for, place)
    WHERE NOT EXISTS (SELECT FROM run r WHERE r.job_id = $1 AND r.scheduled_for = a.scheduled_for
                      AND r.scheduled_for BETWEEN $11 AND $12)
), timed AS MATERIALIZED (
    SELECT scheduled_for,
           CASE WHEN $7 THEN $4::timestamptz + (row_number() OVER (ORDER BY place) - 1) * $8 * interval '1 millisecond'
                ELSE $4::timestamptz END AS due_at
    FROM asked
), inserted AS (
    INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin, traceparent)
    SELECT $1, $2, scheduled_for, due_at, $5, 0, 'BACKFILL', $6 FROM timed ORDER BY scheduled_for
    ON CONFLICT DO NOTHING
    RETURNING scheduled_for, due_at
), queued AS (
    INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, start_by, generation, priority, origin, exclusive,
                           overlap, queue)
    SELECT $1, $2, scheduled_for, due_at, NULL, $5, $9, 'BACKFILL', false, 'ALLOW', $10 FROM inserted WHERE $7
)
SELECT scheduled_for FROM inserted ORDER BY scheduled_for
