-- How the locked alerts $1 live on; $2..$6 are arrays of one length: silenced_until, next_repeat_at, whether it is
-- acknowledged and resolved by $7 (NULL: both as before), and what is to be told of it (NULL: nothing).
UPDATE alert a
SET silenced_until = n.silenced_until, next_repeat_at = n.next_repeat_at, to_tell = n.to_tell,
    acknowledged_at = CASE WHEN n.acknowledged THEN coalesce(a.acknowledged_at, esc_now()) END,
    acknowledged_by = CASE WHEN n.acknowledged THEN coalesce(a.acknowledged_by, $7) END,
    resolved_at = CASE WHEN n.resolved THEN coalesce(a.resolved_at, esc_now()) END,
    resolution = CASE WHEN n.resolved THEN coalesce(a.resolution, 'BY_HAND') END
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::boolean[], $5::boolean[], $6::text[])
    AS n(id, silenced_until, next_repeat_at, acknowledged, resolved, to_tell)
WHERE a.id = n.id
