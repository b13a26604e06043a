-- Asks for a test $1 of channel $2. Always a row.
INSERT INTO channel_test (id, channel_id, created_at) VALUES ($1, $2, esc_now()) RETURNING id
