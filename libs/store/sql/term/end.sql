-- Ends the leadership $2 of role $1 as $3: RESIGNED or LOST. The caller holds the fence.
UPDATE term SET ended_at = esc_now(), ended_how = $3 WHERE role = $1 AND revision = $2 AND ended_at IS NULL
