-- Resolves the groups whose trouble has been over for a minute and whose jobs' alerts are all resolved. A row for each: what it
-- stood for.
UPDATE alert a SET resolved_at = esc_now(), resolution = 'OVER', next_repeat_at = NULL
WHERE a.resolved_at IS NULL AND a.subject = 'SYSTEM' AND a.system_key = 'jobs'
  AND NOT EXISTS (SELECT FROM alert s
                  WHERE (s.resolved_at IS NULL OR s.resolved_at > (SELECT esc_now()) - interval '1 minute')
                    AND s.subject = 'SYSTEM' AND s.kind = a.kind AND s.system_key <> 'jobs')
  AND NOT EXISTS (SELECT FROM alert m WHERE m.tenant_id = a.tenant_id AND m.resolved_at IS NULL AND m.explained_by = a.id)
RETURNING a.id, a.kind, a.opened_at, a.resolved_at, a.count
