-- How many of the channels $2 and of the check-ins $3, by name, tenant $1 has. Always one row.
SELECT (SELECT count(*) FROM alert_channel
        WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[])) AS channels,
       (SELECT count(*) FROM check_in
        WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($3::text[])) AS check_ins
