-- Definitions: the current one, every past one, and how far each job is planned.

CREATE TABLE job (
    id         uuid PRIMARY KEY,                     -- never reused
    tenant_id  uuid NOT NULL REFERENCES tenant,
    generation bigint NOT NULL CHECK (generation >= 1),
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,                          -- soft: history stays readable
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    definition jsonb NOT NULL CHECK (pg_column_size(definition) <= 262144),
    broken     text CHECK (length(broken) <= 2048)   -- why the planner can't use it
);
CREATE UNIQUE INDEX job_by_name ON job (tenant_id, name) WHERE deleted_at IS NULL;

-- The definition of a generation applies to instants after its in_force_from, up to and including the next one's.
CREATE TABLE job_revision (
    job_id        uuid NOT NULL REFERENCES job,
    generation    bigint NOT NULL,
    in_force_from timestamptz NOT NULL,
    action        text NOT NULL CHECK (action IN ('CREATED', 'CHANGED', 'DELETED')),
    author        text NOT NULL CHECK (length(author) <= 128),
    definition    jsonb NOT NULL,
    PRIMARY KEY (job_id, generation)
);

-- The first instant that is not planned yet; NULL when the schedule has no more. Narrow, because it is hot.
CREATE TABLE job_cursor (
    job_id       uuid PRIMARY KEY REFERENCES job,
    next_fire_at timestamptz,
    generation   bigint NOT NULL,
    broken       boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);
CREATE INDEX job_cursor_due ON job_cursor (next_fire_at) WHERE NOT broken;

-- The watchdog's own cursor: the next occurrence that it judges, and when it looks at it. Never the ticker's.
-- judged_through is the watchdog's alone: a registry that moves next_at and judge_at can't make it skip one.
CREATE TABLE watch_cursor (
    job_id         uuid PRIMARY KEY REFERENCES job,
    next_at        timestamptz,
    judge_at       timestamptz,
    judged_through timestamptz
) WITH (fillfactor = 70);
CREATE INDEX watch_cursor_due ON watch_cursor (judge_at);

-- What is left to judge of a definition that was replaced before the deadlines of its last occurrences: those after
-- judged_through, up to `through`. So a new, shorter deadline needn't wait behind an old, longer one.
CREATE TABLE watch_rest (
    job_id         uuid NOT NULL REFERENCES job,
    through        timestamptz NOT NULL,
    judged_through timestamptz NOT NULL,
    judge_at       timestamptz NOT NULL,
    PRIMARY KEY (job_id, through)
) WITH (fillfactor = 70);
CREATE INDEX watch_rest_due ON watch_rest (judge_at);
