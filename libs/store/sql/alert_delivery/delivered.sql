-- Delivery $1 was received with HTTP status $2: a fact, whoever has taken it since. No row: it was recorded before.
UPDATE alert_delivery SET delivered_at = esc_now(), given_up_at = NULL, last_status = $2, last_error = NULL
WHERE id = $1 AND delivered_at IS NULL
RETURNING id
