-- The guard's table and function; belongs into a migration of the database that the job writes to. Can be run again.
-- One row is one guard key: the highest token that has written under it. Rows that no attempt can still be frozen
-- with may be deleted: DELETE FROM escapement_fence WHERE at < now() - interval '90 days'.
CREATE TABLE IF NOT EXISTS escapement_fence (
    guard_key text PRIMARY KEY CHECK (length(guard_key) BETWEEN 1 AND 200),
    token bigint NOT NULL CHECK (token > 0),
    at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50); -- rewritten with each write of the job: leaves room on the page

-- Raises the highest token of writer_key to writer_token and keeps the row locked until the transaction ends; fails
-- with SQLSTATE ZF001 when a higher one has written.
CREATE OR REPLACE FUNCTION escapement_guard(writer_key text, writer_token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    highest bigint;
BEGIN
    INSERT INTO escapement_fence AS seen (guard_key, token, at)
    VALUES (writer_key, writer_token, clock_timestamp())
    ON CONFLICT (guard_key) DO UPDATE SET token = excluded.token, at = excluded.at
        WHERE seen.token <= excluded.token;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT token INTO highest FROM escapement_fence WHERE guard_key = writer_key;
    RAISE EXCEPTION 'stale fencing token %: token % has written under guard key %',
        writer_token, highest, writer_key
        USING ERRCODE = 'ZF001', HINT = 'This attempt was given up for dead. Stop; do not try again.';
END
$$;
