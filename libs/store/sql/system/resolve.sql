-- Resolves the open alerts of kind $1 about $2. A row for each that was open: what it said.
UPDATE alert SET resolved_at = esc_now(), resolution = 'OVER', next_repeat_at = NULL
WHERE resolved_at IS NULL AND subject = 'SYSTEM' AND kind = $1 AND system_key = $2
RETURNING id, opened_at, resolved_at, count, detail
