-- Makes $1 the epoch, of this very server, unless a higher one is stored. $2, $3: system identifier and timeline that
-- the caller decided for. It needs no further comparison: no token of it was ever drawn.
-- No row: a higher epoch is stored, or the server is another one by now.
INSERT INTO epoch AS e (epoch, system_identifier, timeline, changed_at, compared_start, compared_sequence)
SELECT $1, c.system_identifier, esc_timeline(), esc_now(), pg_postmaster_start_time(), 'token_seq'::regclass::oid
FROM pg_control_system() c
WHERE c.system_identifier = $2 AND esc_timeline() = $3
ON CONFLICT (only_row) DO UPDATE
SET epoch = excluded.epoch, system_identifier = excluded.system_identifier, timeline = excluded.timeline, changed_at = excluded.changed_at,
    compared_start = excluded.compared_start, compared_sequence = excluded.compared_sequence
WHERE e.epoch < excluded.epoch
RETURNING e.epoch
