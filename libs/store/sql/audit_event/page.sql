-- What was changed on behalf of tenant $1, the latest first: at most $9 events, before the instant $7 and event $8, of those by
-- the actor $2, of the action $3, to the object $4, from $5 until before $6; NULL for any.
SELECT id, at, actor, action, object, detail FROM audit_event
WHERE tenant_id = $1 AND at <= $7 AND (at, id) < ($7, $8)
    AND ($2::text IS NULL OR actor = $2) AND ($3::text IS NULL OR action = $3) AND ($4::text IS NULL OR object = $4)
    AND ($5::timestamptz IS NULL OR at >= $5) AND ($6::timestamptz IS NULL OR at < $6)
ORDER BY at DESC, id DESC LIMIT $9
