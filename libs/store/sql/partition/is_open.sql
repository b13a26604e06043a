-- Whether a run of the day $1 is open: waits in the queue, is parked, is leased, or is still to come of a backlog. One
-- row. Whoever opens one writes the ledger's row of that day too, so that with the day locked the answer stays.
WITH day AS (
    SELECT $1::date::timestamp AT TIME ZONE 'UTC' AS first, ($1::date + 1)::timestamp AT TIME ZONE 'UTC' AS next
)
SELECT EXISTS (SELECT FROM run_queue q, day d WHERE q.scheduled_for >= d.first AND q.scheduled_for < d.next)
    OR EXISTS (SELECT FROM run_parked p, day d WHERE p.scheduled_for >= d.first AND p.scheduled_for < d.next)
    OR EXISTS (SELECT FROM run_lease l, day d WHERE l.scheduled_for >= d.first AND l.scheduled_for < d.next)
    OR EXISTS (SELECT FROM catch_up c, day d WHERE c.next_at < d.next AND c.through >= d.first) AS open
