-- Deletes up to $2 verdicts from before $1, the oldest first.
DELETE FROM verdict v
USING (SELECT job_id, occurrence, kind FROM verdict WHERE judged_at < $1 ORDER BY judged_at LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE v.job_id = old.job_id AND v.occurrence = old.occurrence AND v.kind = old.kind
