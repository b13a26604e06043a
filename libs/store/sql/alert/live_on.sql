-- How the locked alerts $1 live on; $2..$7 are arrays of one length: silenced_until, next_repeat_at, whether it is
-- acknowledged and resolved by $8 (NULL: both as before), what is to be told of it (NULL: nothing), and whether nobody was
-- told of it.
UPDATE alert a
SET silenced_until = n.silenced_until, next_repeat_at = n.next_repeat_at, to_tell = n.to_tell, untold = n.untold,
    acknowledged_at = CASE WHEN n.acknowledged THEN coalesce(a.acknowledged_at, esc_now()) END,
    acknowledged_by = CASE WHEN n.acknowledged THEN coalesce(a.acknowledged_by, $8) END,
    resolved_at = CASE WHEN n.resolved THEN coalesce(a.resolved_at, esc_now()) END,
    resolution = CASE WHEN n.resolved THEN coalesce(a.resolution, 'BY_HAND') END
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::boolean[], $5::boolean[], $6::text[], $7::boolean[])
    AS n(id, silenced_until, next_repeat_at, acknowledged, resolved, to_tell, untold)
WHERE a.id = n.id
