-- A job of tenant $1 that names the channel $2. No row: none does.
SELECT name FROM job WHERE tenant_id = $1 AND deleted_at IS NULL AND definition -> 'alert' -> 'channels' ? $2 LIMIT 1
