-- The locked check-ins $1, asked for after the locks, with the clock.
SELECT id, tenant_id, name, definition, created_at, judged_through, looked_through, started_at, esc_now() AS at
FROM check_in WHERE id = ANY($1::uuid[]) AND deleted_at IS NULL AND paused_at IS NULL
ORDER BY id
