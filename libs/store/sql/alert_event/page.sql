-- The history of alert $1: its first 10 and its last $2 events, in order.
SELECT e.at, e.what, e.actor, e.note
FROM (SELECT *, row_number() OVER (ORDER BY sequence) AS first, row_number() OVER (ORDER BY sequence DESC) AS last
      FROM alert_event WHERE alert_id = $1) e
WHERE e.first <= 10 OR e.last <= $2
ORDER BY e.sequence
