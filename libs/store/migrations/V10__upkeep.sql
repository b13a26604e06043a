-- When this server was started and which sequence it had when the epoch was last compared with the mark outside of the
-- database. One that was started anew may have been restored in between: nothing is claimed before it is compared again.
ALTER TABLE epoch
    ADD COLUMN compared_start timestamptz,
    ADD COLUMN compared_sequence oid;

-- What leaves the database by age: the ledger's days as whole partitions, rows of other tables by these indexes.

CREATE INDEX misfire_by_age ON misfire (last);
CREATE INDEX verdict_by_age ON verdict (judged_at);
CREATE INDEX alert_resolved ON alert (resolved_at) WHERE resolved_at IS NOT NULL;
CREATE INDEX worker_session_ended ON worker_session (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX audit_event_by_age ON audit_event (at);

-- Locks the partition of `base` for `day` against everybody, without its parent: who reads or writes other days goes on.
-- False when there is none.
CREATE FUNCTION esc_lock_partition(base text, day date) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    part text := base || '_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF to_regclass(part) IS NULL THEN
        RETURN false;
    END IF;
    EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', part);
    RETURN to_regclass(part) IS NOT NULL;
EXCEPTION WHEN undefined_table THEN -- dropped while this waited
    RETURN false;
END $$;

-- Drops it, for which the parent is locked too.
CREATE FUNCTION esc_drop_partition(base text, day date) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('DROP TABLE %I', base || '_' || to_char(day, 'YYYYMMDD'));
END $$;
