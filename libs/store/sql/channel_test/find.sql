-- Test $1, whose result is NULL while it has not ended. No row: it is unknown, or too old.
SELECT received, status, error FROM channel_test WHERE id = $1
