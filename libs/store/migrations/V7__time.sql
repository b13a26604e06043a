-- Pauses, calendars, runs that wait for another one, paced backlogs, and what makes a call safe to repeat.

-- A paused job is neither planned nor handed out. The revision says so too, so that planner, watchdog and `why` answer
-- from one table.
ALTER TABLE job ADD COLUMN paused_at timestamptz, ADD COLUMN pause_reason text CHECK (length(pause_reason) <= 256);
ALTER TABLE job_revision
    ADD COLUMN paused boolean NOT NULL DEFAULT false,
    ADD COLUMN catches_up boolean NOT NULL DEFAULT false, -- the pause that it ends counts as an outage
    ADD COLUMN reason text CHECK (length(reason) <= 256),
    DROP CONSTRAINT job_revision_action_check,
    ADD CONSTRAINT job_revision_action_check
        CHECK (action IN ('CREATED', 'CHANGED', 'DELETED', 'PAUSED', 'RESUMED', 'CALENDAR')),
    ADD CONSTRAINT only_a_resumption_catches_up CHECK (NOT catches_up OR (action = 'RESUMED' AND NOT paused));

-- Why an occurrence of a pause was missed that is caught up with.
ALTER TYPE misfire_cause ADD VALUE 'PAUSED' BEFORE 'BEYOND_RETENTION';

-- Named sets of dates. A definition names a version, which never changes: what applied at an instant stays known.
CREATE TABLE calendar (
    tenant_id  uuid NOT NULL REFERENCES tenant,
    version    bigint NOT NULL CHECK (version >= 1),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,                          -- a new one of the name goes on with the next version
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    PRIMARY KEY (tenant_id, name)
);
CREATE TABLE calendar_version (
    tenant_id  uuid NOT NULL,
    version    bigint NOT NULL,
    created_at timestamptz NOT NULL,
    name       text NOT NULL,
    author     text NOT NULL CHECK (length(author) <= 128),
    dates      date[] NOT NULL CHECK (cardinality(dates) <= 10000),
    PRIMARY KEY (tenant_id, name, version),
    FOREIGN KEY (tenant_id, name) REFERENCES calendar
);
-- Which jobs name a calendar, for the day it changes.
CREATE INDEX job_by_calendar ON job USING gin ((definition -> 'calendars') jsonb_path_ops)
    WHERE deleted_at IS NULL AND definition -> 'calendars' <> '{}';

-- What becomes of a run that meets an open one of its job: copied when it is planned, as `exclusive` is.
CREATE TYPE run_overlap AS ENUM ('FORBID', 'ALLOW', 'QUEUE', 'REPLACE');
ALTER TABLE run_queue
    ADD COLUMN overlap run_overlap NOT NULL DEFAULT 'FORBID',
    ADD COLUMN spared boolean NOT NULL DEFAULT false; -- put off while a backlog drained: no overlap skips it

-- Requests to stop that workers have not answered yet: few at any time, looked for each second.
CREATE INDEX run_lease_cancel ON run_lease (session_id) WHERE cancel_requested IS NOT NULL;

-- The one run of a job that waits for an earlier one to end. What it displaces ends as skipped.
CREATE TABLE run_parked (
    job_id        uuid PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    parked_at     timestamptz NOT NULL,
    generation    bigint NOT NULL,
    priority      smallint NOT NULL,
    origin        run_origin NOT NULL,
    overlap       run_overlap NOT NULL,              -- FORBID: a trigger that was asked to wait
    queue         text NOT NULL
) WITH (fillfactor = 70);

-- The pace of backlogs: of one job, and of all of a tenant together.
ALTER TABLE catch_up
    ADD COLUMN interval_ms integer NOT NULL DEFAULT 100 CHECK (interval_ms BETWEEN 1 AND 3600000),
    ADD COLUMN released_at timestamptz;              -- when the last one of it was due
ALTER TABLE tenant ADD COLUMN catch_up_per_second integer NOT NULL DEFAULT 100
    CHECK (catch_up_per_second BETWEEN 1 AND 100000);
CREATE TABLE catch_up_pace (
    tenant_id uuid PRIMARY KEY,
    next_at   timestamptz NOT NULL                   -- when the next run of a backlog may be due
) WITH (fillfactor = 50);

-- The last time that a living dispatcher could not renew itself: evidence for why something was missed.
ALTER TABLE dispatcher ADD COLUMN silent_from timestamptz, ADD COLUMN silent_through timestamptz;

-- Which timezone database the plans were made with.
CREATE TABLE tzdata (
    only_row   boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    version    text NOT NULL CHECK (version ~ '^[0-9]{4}[a-z]{1,2}$'),
    changed_at timestamptz NOT NULL,
    reached    uuid                                  -- jobs through this are planned with it; NULL: all are
);

-- A call that changes something, and its answer, for as long as a caller may repeat it.
CREATE TABLE idempotency_key (
    tenant_id  uuid NOT NULL REFERENCES tenant,
    created_at timestamptz NOT NULL,
    caller     text NOT NULL CHECK (length(caller) <= 128),
    route      text NOT NULL CHECK (length(route) <= 256),
    key        text NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    body_hash  bytea NOT NULL CHECK (octet_length(body_hash) = 32),
    answer     bytea NOT NULL CHECK (octet_length(answer) <= 65536),
    PRIMARY KEY (tenant_id, caller, route, key)
);
CREATE INDEX idempotency_key_by_age ON idempotency_key (created_at);

-- A run that is run again keeps the record of how it ended before, its success too.
ALTER TABLE run_outcome
    DROP CONSTRAINT run_outcome_state_check,
    ADD CONSTRAINT run_outcome_state_check CHECK (state <> 'PLANNED'),
    ALTER COLUMN reason DROP NOT NULL,
    ADD CONSTRAINT only_success_has_no_reason CHECK ((state = 'SUCCEEDED') = (reason IS NULL)),
    ADD CONSTRAINT success_is_final_in_run CHECK (state <> 'SUCCEEDED' OR NOT final);
