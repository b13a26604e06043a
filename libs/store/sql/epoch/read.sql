-- Which database this is, which one the epoch was made for, and the sequence of the tokens. One row; the stored columns
-- are NULL in a cell that has had no epoch yet, the compared ones also before the first comparison. `sequence` is the last
-- value drawn, 0 when none was.
SELECT c.system_identifier AS server_system, esc_timeline() AS server_timeline,
       pg_postmaster_start_time() AS server_start, 'token_seq'::regclass::oid AS server_sequence,
       e.epoch, e.system_identifier AS stored_system, e.timeline AS stored_timeline,
       e.compared_start, e.compared_sequence,
       CASE WHEN s.is_called THEN s.last_value ELSE 0 END AS sequence
FROM pg_control_system() c CROSS JOIN token_seq s LEFT JOIN epoch e ON true
