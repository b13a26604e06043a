-- The highest applied migration. One row; NULL when none was applied.
SELECT max(version) AS version FROM refinery_schema_history
