-- Which of the names $2 are jobs of tenant $1. Seen without a lock: look again once it is held.
SELECT id, name FROM job WHERE tenant_id = $1 AND deleted_at IS NULL AND name = ANY($2::text[])
