-- Deletes up to $2 events of the audit trail from before $1, the oldest first.
DELETE FROM audit_event e
USING (SELECT id FROM audit_event WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE e.id = old.id
