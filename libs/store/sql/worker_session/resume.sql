-- Takes session $1 over for a new connection, with the parameters of insert.sql. The caller has locked it in the
-- statement before. One row; `connection` is NULL when it was resumed $8 times already without a word since. No row: it
-- has ended, never was, or belongs to another tenant.
WITH taken AS (
    UPDATE worker_session
    SET dispatcher_id = $2, connection = connection + 1, unheard = unheard + 1, connected_at = esc_now(), name = $4,
        version = $5, queues = $6, slots = $7
    WHERE id = $1 AND tenant_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL AND unheard < $8
    RETURNING connection
)
SELECT (SELECT connection FROM taken) AS connection
FROM worker_session WHERE id = $1 AND tenant_id IS NOT DISTINCT FROM $3 AND ended_at IS NULL
