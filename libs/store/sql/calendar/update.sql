-- Gives the calendar $4 of tenant $1 other dates, $5, at $2 by author $3, as its next version. The caller holds the
-- row's lock. One row: the version.
WITH stored AS (
    UPDATE calendar SET version = version + 1, updated_at = $2
    WHERE tenant_id = $1 AND name = $4 AND deleted_at IS NULL
    RETURNING version
)
INSERT INTO calendar_version (tenant_id, version, created_at, name, author, dates)
SELECT $1, stored.version, $2, $4, $3, $5 FROM stored
RETURNING version
