-- Test $1 ended: received or not ($2), with status $3 (NULL: no answer) and error $4 (NULL: none). A row, if it is
-- known.
UPDATE channel_test SET ended_at = esc_now(), received = $2, status = $3, error = $4 WHERE id = $1 RETURNING id
