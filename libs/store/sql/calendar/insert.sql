-- Stores a calendar of tenant $1, created at $2 by author $3: name $4, dates $5. A deleted one of the name is taken up
-- again with its next version. One row: the version. No row: the tenant has a calendar of that name.
WITH stored AS (
    INSERT INTO calendar AS c (tenant_id, version, created_at, updated_at, name) VALUES ($1, 1, $2, $2, $4)
    ON CONFLICT (tenant_id, name) DO UPDATE
    SET version = c.version + 1, created_at = $2, updated_at = $2, deleted_at = NULL
    WHERE c.deleted_at IS NOT NULL
    RETURNING version
)
INSERT INTO calendar_version (tenant_id, version, created_at, name, author, dates)
SELECT $1, stored.version, $2, $4, $3, $5 FROM stored
RETURNING version
