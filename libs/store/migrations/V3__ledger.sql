-- The ledger and the two hot tables beside it. No foreign keys here: a planner deadlocked with a registry
-- through one; a test looks for orphans instead.

CREATE TYPE run_origin AS ENUM ('SCHEDULE', 'CATCH_UP', 'BACKFILL', 'MANUAL');
CREATE TYPE run_state AS ENUM ('PLANNED', 'SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST', 'CANCELLED', 'SKIPPED');
CREATE TYPE run_reason AS ENUM (
    'MISSED', 'SUPERSEDED', 'OVERLAP', 'DELETED', 'PAUSED', 'REPLACED', 'REQUESTED', 'WORK_FAILED', 'NOT_STARTED',
    'MAX_RUNTIME', 'WORKER_LOST', 'UNDELIVERABLE'
);
CREATE TYPE misfire_cause AS ENUM (
    'NO_TICKER', 'NO_DISPATCHER', 'NO_WORKER', 'LIMIT', 'DATABASE', 'BEYOND_RETENTION', 'UNKNOWN'
);

-- One row an occurrence. Written twice, planned and finished, the second time in place (HOT): no text in it,
-- most of each page free (the finished version is half again as long: 40 % holds both, 50 % does not), no index on anything that finishing writes. Columns are ordered by alignment.
CREATE TABLE run (
    job_id        uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    worker        uuid,                              -- the session of the last attempt
    scheduled_for timestamptz NOT NULL,              -- the occurrence; never moved
    due_at        timestamptz NOT NULL,              -- plus jitter, or when it was queued late
    claimed_at    timestamptz,
    accepted_at   timestamptz,
    finished_at   timestamptz,
    generation    bigint NOT NULL,                   -- the definition that every attempt executes
    term          bigint NOT NULL,                   -- the leadership that planned it
    token         bigint,                            -- of the last attempt
    attempt       integer NOT NULL DEFAULT 0,
    origin        run_origin NOT NULL,
    state         run_state NOT NULL DEFAULT 'PLANNED',
    reason        run_reason,
    traceparent   bytea CHECK (octet_length(traceparent) <= 64),
    PRIMARY KEY (job_id, scheduled_for),
    CONSTRAINT finished_iff_terminal CHECK ((state = 'PLANNED') = (finished_at IS NULL)),
    CONSTRAINT success_has_no_reason CHECK (state NOT IN ('PLANNED', 'SUCCEEDED') OR reason IS NULL),
    CONSTRAINT other_ends_have_one CHECK (state IN ('PLANNED', 'SUCCEEDED') OR reason IS NOT NULL),
    CONSTRAINT success_was_attempted CHECK (state <> 'SUCCEEDED' OR (attempt >= 1 AND token IS NOT NULL)),
    CONSTRAINT whole_seconds_unless_manual CHECK ((date_trunc('second', scheduled_for) = scheduled_for) <> (origin = 'MANUAL'))
) PARTITION BY RANGE (scheduled_for);

-- For looking at the last minutes across all jobs. Block ranges cost next to nothing on insert, and the column is never
-- updated, so that finishing stays HOT.
CREATE INDEX run_by_time ON run USING brin (scheduled_for) WITH (pages_per_range = 32, autosummarize = on);

-- The end of the last attempt's output and what it said; insert-only. Only when there is something to keep.
CREATE TABLE run_output (
    job_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    attempt       integer NOT NULL,
    exit_status   integer,
    truncated     boolean NOT NULL DEFAULT false,
    tail          bytea NOT NULL CHECK (octet_length(tail) <= 4096),
    error         text NOT NULL DEFAULT '' CHECK (length(error) <= 2048),
    PRIMARY KEY (job_id, scheduled_for, attempt)
) PARTITION BY RANGE (scheduled_for);

-- Every attempt that did not end its run (final = false), and every end but success (final = true); insert-only.
CREATE TABLE run_outcome (
    job_id        uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    worker        uuid,
    scheduled_for timestamptz NOT NULL,
    at            timestamptz NOT NULL,
    claimed_at    timestamptz,
    accepted_at   timestamptz,
    token         bigint,
    attempt       integer NOT NULL,
    state         run_state NOT NULL CHECK (state NOT IN ('PLANNED', 'SUCCEEDED')),
    reason        run_reason NOT NULL,
    cause         misfire_cause,                     -- of a run that was not handed out in time
    final         boolean NOT NULL,
    PRIMARY KEY (job_id, scheduled_for, attempt, final)
) PARTITION BY RANGE (scheduled_for);
CREATE INDEX run_outcome_by_state ON run_outcome (tenant_id, state, at);

-- Makes the daily partitions of [from_day, through_day] that are missing; returns how many it made.
CREATE FUNCTION esc_make_partitions(from_day date, through_day date) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    day  date;
    made integer := 0;
    base text;
    part text;
    storage text;
BEGIN
    FOR day IN SELECT generate_series(from_day, through_day, interval '1 day')::date LOOP
        FOREACH base IN ARRAY ARRAY['run', 'run_output', 'run_outcome'] LOOP
            part := base || '_' || to_char(day, 'YYYYMMDD');
            CONTINUE WHEN to_regclass(part) IS NOT NULL;
            storage := CASE base WHEN 'run' THEN 'WITH (fillfactor = 40)' ELSE '' END;
            EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (%L) TO (%L) %s',
                part, base, day::timestamp AT TIME ZONE 'UTC', (day + 1)::timestamp AT TIME ZONE 'UTC', storage);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END $$;

-- Occurrences before this instant have no row and get none.
CREATE TABLE ledger_floor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    floor    timestamptz NOT NULL
);
INSERT INTO ledger_floor (floor) VALUES ('1970-01-01T00:00:00Z');

-- Waiting to be handed out, now or at due_at. `exclusive` and `generation` are copies, so that a claim joins
-- nothing: what they say of a planned run changes only by removing the row.
CREATE TABLE run_queue (
    job_id        uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    due_at        timestamptz NOT NULL,
    start_by      timestamptz,                       -- of the first release of a scheduled occurrence only
    generation    bigint NOT NULL,
    priority      smallint NOT NULL,
    undelivered   smallint NOT NULL DEFAULT 0,
    lost          smallint NOT NULL DEFAULT 0,
    failed        smallint NOT NULL DEFAULT 0,
    attempt       integer NOT NULL DEFAULT 0,        -- the last one handed out
    origin        run_origin NOT NULL,
    late          boolean NOT NULL DEFAULT false,    -- the one late row of misfire ONCE
    exclusive     boolean NOT NULL,
    queue         text NOT NULL,
    PRIMARY KEY (job_id, scheduled_for),
    CONSTRAINT a_retry_is_never_late CHECK (attempt = 0 OR (start_by IS NULL AND NOT late))
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX run_queue_claim ON run_queue (tenant_id, queue, priority, due_at);
CREATE UNIQUE INDEX run_queue_one_late ON run_queue (job_id) WHERE late;
CREATE INDEX run_queue_start_by ON run_queue (start_by) WHERE start_by IS NOT NULL;

-- One row for each open run, from its first release to its terminal state, the wait before a retry included
-- (session NULL). Two leases of a job whose runs exclude each other can't both be here.
CREATE TABLE run_lease (
    job_id        uuid NOT NULL,
    tenant_id     uuid NOT NULL,
    session_id    uuid,
    claim_id      uuid NOT NULL,                     -- the claim that took it last
    scheduled_for timestamptz NOT NULL,
    claimed_at    timestamptz NOT NULL,
    accepted_at   timestamptz,
    deadline      timestamptz,                       -- acceptance + max_runtime + grace
    cancel_requested timestamptz,
    generation    bigint NOT NULL,
    token         bigint NOT NULL,                   -- 0 only inside the claim that draws it
    priority      smallint NOT NULL,
    undelivered   smallint NOT NULL,
    lost          smallint NOT NULL,
    failed        smallint NOT NULL,
    attempt       integer NOT NULL CHECK (attempt >= 1),
    connection    integer NOT NULL,                  -- of the session, when claimed or resumed
    cancel_reason run_reason,
    origin        run_origin NOT NULL,
    exclusive     boolean NOT NULL,
    queue         text NOT NULL,
    PRIMARY KEY (job_id, scheduled_for)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX run_lease_exclusive ON run_lease (job_id) WHERE exclusive;
CREATE INDEX run_lease_session ON run_lease (session_id);
CREATE INDEX run_lease_deadline ON run_lease (deadline) WHERE deadline IS NOT NULL;

-- A backlog that is being worked off: rows of `run` from next_at on are planned and not queued yet.
CREATE TABLE catch_up (
    job_id     uuid PRIMARY KEY,
    next_at    timestamptz NOT NULL,
    through    timestamptz NOT NULL,
    remaining  integer NOT NULL CHECK (remaining >= 0)
);

-- Occurrences that never got a row in `run`: how many from first to last, by which policy, and why.
CREATE TABLE misfire (
    job_id      uuid NOT NULL,
    first       timestamptz NOT NULL,
    last        timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    count       bigint NOT NULL CHECK (count >= 1),
    term        bigint NOT NULL,
    cause       misfire_cause NOT NULL,
    policy      text NOT NULL CHECK (policy IN ('SKIP', 'ONCE', 'CATCH_UP')),
    outcome     text NOT NULL CHECK (outcome IN ('SKIPPED', 'SUPERSEDED', 'BEYOND_CATCH_UP', 'BEYOND_RETENTION')),
    PRIMARY KEY (job_id, first),
    CHECK (first <= last)
);

-- What people see. One view, so that history, status and watchdog answer alike.
CREATE VIEW run_phase AS
SELECT r.job_id, r.tenant_id, r.scheduled_for, r.due_at, r.generation, r.term, r.origin, r.state, r.reason,
       r.finished_at,
       coalesce(l.attempt, r.attempt)         AS attempt,
       coalesce(nullif(l.token, 0), r.token)  AS token,
       coalesce(l.session_id, r.worker)       AS worker,
       coalesce(l.claimed_at, r.claimed_at)   AS claimed_at,
       coalesce(l.accepted_at, r.accepted_at) AS accepted_at,
       CASE WHEN r.state <> 'PLANNED' THEN r.state::text
            WHEN l.session_id IS NOT NULL THEN 'RUNNING'
            WHEN l.job_id IS NOT NULL THEN 'RETRYING'
            WHEN r.due_at <= esc_now() THEN 'WAITING'
            ELSE 'PLANNED' END AS phase
FROM run r
LEFT JOIN run_lease l ON l.job_id = r.job_id AND l.scheduled_for = r.scheduled_for;
