-- Resolves the locked alerts $1. A row for each that was open.
UPDATE alert SET resolved_at = esc_now() WHERE id = ANY($1::uuid[]) AND resolved_at IS NULL RETURNING id, resolved_at
