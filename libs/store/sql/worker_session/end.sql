-- Ends sessions, each only if it is still with the dispatcher and the connection that the caller names. $1..$3 are
-- arrays of one length: session, dispatcher, connection. The caller has locked the sessions in the statement before.
-- A row for each that ended by this; a missing one has moved on, or had ended.
UPDATE worker_session w SET ended_at = esc_now()
FROM unnest($1::uuid[], $2::uuid[], $3::integer[]) AS s(id, dispatcher_id, connection)
WHERE w.id = s.id AND w.dispatcher_id = s.dispatcher_id AND w.connection = s.connection AND w.ended_at IS NULL
RETURNING w.id
