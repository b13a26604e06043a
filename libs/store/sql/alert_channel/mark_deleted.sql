-- Deletes the channel $1, softly: deliveries that name it stay readable.
UPDATE alert_channel SET deleted_at = esc_now() WHERE id = $1 AND deleted_at IS NULL
