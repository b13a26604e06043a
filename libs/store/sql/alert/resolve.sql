-- Resolves the locked alerts $1, for the reasons $2 (arrays of one length). A row for each that was open.
UPDATE alert a SET resolved_at = esc_now(), resolution = n.resolution, next_repeat_at = NULL, to_tell = NULL
FROM unnest($1::uuid[], $2::text[]) AS n(id, resolution)
WHERE a.id = n.id AND a.resolved_at IS NULL
RETURNING a.id, a.resolved_at
