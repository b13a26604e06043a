-- How far back the ledger is needed, in milliseconds: the job that asks for most, by the window in which it catches up and
-- the time that a run may take. No row: no job.
SELECT name,
       CASE WHEN definition #>> '{misfire,policy}' = 'CATCH_UP' THEN (definition #>> '{misfire,catch_up_window}')::bigint ELSE 0 END
       + (definition ->> 'max_runtime')::bigint AS needed_ms
FROM job WHERE deleted_at IS NULL
ORDER BY needed_ms DESC LIMIT 1
