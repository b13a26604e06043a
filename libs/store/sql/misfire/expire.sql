-- Deletes up to $2 records of missed occurrences that all lie before $1, the oldest first.
DELETE FROM misfire m
USING (SELECT job_id, first FROM misfire WHERE last < $1 ORDER BY last LIMIT $2 FOR UPDATE SKIP LOCKED) old
WHERE m.job_id = old.job_id AND m.first = old.first
