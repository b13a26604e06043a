-- Stores check-in $1 of tenant $2, created at $3, with the hash $4 of its token, name $5 and definition $6; it is looked at $7
-- (NULL: never). Fails on check_in_by_name when the tenant has one of that name.
INSERT INTO check_in (id, tenant_id, created_at, updated_at, judged_through, looked_through, judge_at, token_hash, name, definition)
VALUES ($1, $2, $3, $3, $3, $3, $7, $4, $5, $6)
