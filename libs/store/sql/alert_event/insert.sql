-- Adds to the history of the alerts $1 what happened to each ($2) by $3 (NULL: the watchdog), with a note ($4); $1, $2 and $4
-- are arrays of one length.
INSERT INTO alert_event (alert_id, at, what, actor, note)
SELECT n.alert_id, esc_now(), n.what, $3, left(n.note, 1024)
FROM unnest($1::uuid[], $2::text[], $4::text[]) WITH ORDINALITY AS n(alert_id, what, note, place)
ORDER BY n.place
