-- An alert's life: whom it is about, how grave it is, who looks after it and what became of it. And check-ins, which watch
-- what runs elsewhere. Every default is what the release before meant.

ALTER TABLE alert
    ALTER COLUMN tenant_id DROP NOT NULL,            -- of the cell itself
    ADD COLUMN check_in_id uuid,
    ADD COLUMN explained_by uuid,                    -- the alert that tells of this one's cause, while it is open
    ADD COLUMN acknowledged_at timestamptz,
    ADD COLUMN silenced_until timestamptz,
    ADD COLUMN next_repeat_at timestamptz,           -- NULL: told once
    ADD COLUMN untold boolean NOT NULL DEFAULT false, -- nobody was told: another alert tells of the same
    ADD COLUMN subject text NOT NULL DEFAULT 'JOB',
    ADD COLUMN severity text NOT NULL DEFAULT 'CRITICAL' CHECK (severity IN ('INFO', 'WARNING', 'CRITICAL')),
    ADD COLUMN system_key text CHECK (length(system_key) BETWEEN 1 AND 128),
    ADD COLUMN group_key text CHECK (length(group_key) BETWEEN 1 AND 128), -- what is told together
    ADD COLUMN acknowledged_by text CHECK (length(acknowledged_by) <= 256),
    ADD COLUMN resolution text CHECK (length(resolution) <= 32),
    ADD COLUMN to_tell text CHECK (to_tell IN ('ACKNOWLEDGED', 'RESOLVED')), -- what a person did, for the watchdog to tell
    ADD COLUMN labels jsonb NOT NULL DEFAULT '{}' CHECK (length(labels::text) <= 16384),
    ADD CONSTRAINT subject_is_named CHECK (CASE subject
        WHEN 'JOB' THEN tenant_id IS NOT NULL AND job_id IS NOT NULL AND check_in_id IS NULL AND system_key IS NULL
        WHEN 'CHECK_IN' THEN tenant_id IS NOT NULL AND job_id IS NULL AND check_in_id IS NOT NULL AND system_key IS NULL
        WHEN 'SYSTEM' THEN job_id IS NULL AND check_in_id IS NULL AND system_key IS NOT NULL
        ELSE false END),
    ADD CONSTRAINT acknowledged_by_somebody CHECK ((acknowledged_at IS NULL) = (acknowledged_by IS NULL));

-- Beside alert_one_open, which is the jobs'.
CREATE UNIQUE INDEX alert_one_open_check_in ON alert (check_in_id, kind)
    WHERE resolved_at IS NULL AND subject = 'CHECK_IN';
CREATE UNIQUE INDEX alert_one_open_system ON alert (tenant_id, system_key, kind) NULLS NOT DISTINCT
    WHERE resolved_at IS NULL AND subject = 'SYSTEM';
CREATE INDEX alert_of_tenant ON alert (tenant_id, opened_at, id);
CREATE INDEX alert_open_of_tenant ON alert (tenant_id, opened_at, id) WHERE resolved_at IS NULL;
CREATE INDEX alert_repeat ON alert (next_repeat_at) WHERE resolved_at IS NULL AND next_repeat_at IS NOT NULL;
CREATE INDEX alert_to_tell ON alert (id) WHERE to_tell IS NOT NULL;

-- What became of an alert: who did it, and when.
CREATE TABLE alert_event (
    alert_id uuid NOT NULL REFERENCES alert ON DELETE CASCADE,
    at       timestamptz NOT NULL,
    sequence bigint GENERATED ALWAYS AS IDENTITY,
    what     text NOT NULL CHECK (what IN ('OPENED', 'TOLD', 'REPEATED', 'ACKNOWLEDGED', 'SILENCED', 'RESOLVED')),
    actor    text CHECK (length(actor) <= 256),      -- NULL: the watchdog
    note     text NOT NULL DEFAULT '' CHECK (length(note) <= 1024),
    PRIMARY KEY (alert_id, sequence)
);

-- A repetition takes the place of the one before it, so that each event stays one row for each alert and channel.
ALTER TABLE alert_delivery
    DROP CONSTRAINT IF EXISTS alert_delivery_event_check,
    ADD CONSTRAINT alert_delivery_event_check CHECK (event IN ('OPENED', 'REPEATED', 'ACKNOWLEDGED', 'RESOLVED'));

ALTER TABLE verdict
    DROP CONSTRAINT verdict_kind_check,
    ADD CONSTRAINT verdict_kind_check
        CHECK (kind IN ('NO_SUCCESS', 'FAILED', 'FAILURES_IN_ROW', 'RUNTIME', 'SKIPPED_OVERLAP'));

-- Ends of runs through this instant were looked at for what alert.on names. Nothing before this release is.
CREATE TABLE outcome_watch (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    through  timestamptz NOT NULL
);
INSERT INTO outcome_watch (through) VALUES (esc_now());

-- The jobs with alert.on, which are few.
CREATE INDEX job_alert_on ON job (id) WHERE definition -> 'alert' -> 'on' IS NOT NULL AND deleted_at IS NULL;

-- Something that runs elsewhere and says so. The row is locked first by whoever reports, changes or judges it, so that
-- the order of reports is that of their instants.
CREATE TABLE check_in (
    id              uuid PRIMARY KEY,
    tenant_id       uuid NOT NULL REFERENCES tenant,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    deleted_at      timestamptz,
    paused_at       timestamptz,
    judged_through  timestamptz NOT NULL,            -- what was to come through this is judged
    looked_through  timestamptz NOT NULL,            -- reports through this were looked at for failures
    judge_at        timestamptz,                     -- NULL: nothing is to be looked at
    started_at      timestamptz,                     -- a start that neither success nor failure has followed
    last_start_at   timestamptz,
    last_success_at timestamptz,
    last_failure_at timestamptz,
    generation      bigint NOT NULL DEFAULT 1,
    token_hash      bytea NOT NULL UNIQUE CHECK (length(token_hash) = 32),
    name            text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    definition      jsonb NOT NULL CHECK (length(definition::text) <= 65536)
);
CREATE UNIQUE INDEX check_in_by_name ON check_in (tenant_id, name) WHERE deleted_at IS NULL;
CREATE INDEX check_in_due ON check_in (judge_at) WHERE judge_at IS NOT NULL;

-- What it reported; the newest are kept, and all that is not judged yet.
CREATE TABLE check_in_report (
    check_in_id uuid NOT NULL REFERENCES check_in,
    at          timestamptz NOT NULL,
    sequence    bigint GENERATED ALWAYS AS IDENTITY,
    kind        text NOT NULL CHECK (kind IN ('START', 'SUCCESS', 'FAIL')),
    message     text NOT NULL DEFAULT '' CHECK (octet_length(message) <= 10240),
    PRIMARY KEY (check_in_id, at, sequence)
);
