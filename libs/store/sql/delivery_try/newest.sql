-- The $3 newest tries of each of the deliveries $2 of the alerts $1 (arrays of one length), the newest first.
SELECT t.delivery_id, t.at, t.try, t.status, t.error
FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS k(alert_id, delivery_id, place)
CROSS JOIN LATERAL (
    SELECT t.* FROM delivery_try t
    WHERE t.alert_id = k.alert_id AND t.delivery_id = k.delivery_id
    ORDER BY t.sequence DESC LIMIT $3
) t
ORDER BY k.place, t.sequence DESC
