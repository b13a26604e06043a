-- The dispatchers that were seen within the last hour. $1: a renewal within so many milliseconds means alive.
SELECT d.id, d.name, d.pid, d.renewed_at,
       d.renewed_at > (SELECT esc_now()) - $1::bigint * interval '1 millisecond' AS alive,
       (SELECT count(*) FROM worker_session w WHERE w.dispatcher_id = d.id AND w.ended_at IS NULL) AS workers
FROM dispatcher d
WHERE d.renewed_at > (SELECT esc_now()) - interval '1 hour'
ORDER BY d.name, d.id
LIMIT 1000
