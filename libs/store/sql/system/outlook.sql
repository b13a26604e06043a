-- What changes slowly: the epoch of the fencing tokens (0: none yet) and the last number drawn, the timezone database of
-- the plans (NULL: nothing was planned), and the first day through tomorrow that has no partition (NULL: all have one, or
-- no ticker has ever led). One row.
SELECT coalesce((SELECT e.epoch FROM epoch e), 0) AS epoch,
       (SELECT CASE WHEN s.is_called THEN s.last_value ELSE 0 END FROM token_seq s) AS sequence,
       (SELECT z.version FROM tzdata z) AS tzdata,
       (SELECT min(d.day) FROM (SELECT (day AT TIME ZONE 'UTC')::date + ahead AS day
                                FROM (SELECT esc_now() AS day) now, generate_series(0, 1) AS ahead) d
        WHERE to_regclass('run_' || to_char(d.day, 'YYYYMMDD')) IS NULL
          AND EXISTS (SELECT FROM term t WHERE t.role = 'ticker')) AS day_missing
