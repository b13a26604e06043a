-- Dispatchers and the sessions of the workers attached to them.

-- One row a process: the identity is drawn at its start, the name is a label. Renewed each second.
CREATE TABLE dispatcher (
    id         uuid PRIMARY KEY,
    started_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    counter    bigint NOT NULL DEFAULT 0,            -- what others watch: it moves or it stands still
    pid        integer NOT NULL,
    name       text NOT NULL CHECK (length(name) <= 128),
    address    text NOT NULL CHECK (length(address) <= 256),
    http       text NOT NULL CHECK (length(http) <= 256)
) WITH (fillfactor = 50);

-- Written on connect, hand-over and disconnect only; heartbeats are between worker and dispatcher.
CREATE TABLE worker_session (
    id            uuid PRIMARY KEY,
    dispatcher_id uuid NOT NULL,
    tenant_id     uuid,                              -- NULL serves every tenant
    connected_at  timestamptz NOT NULL,
    ended_at      timestamptz,
    connection    integer NOT NULL DEFAULT 1,        -- one up at each resume
    slots         integer NOT NULL CHECK (slots BETWEEN 1 AND 10000),
    name          text NOT NULL CHECK (length(name) <= 128),
    version       text NOT NULL CHECK (length(version) <= 64),
    queues        text[] NOT NULL CHECK (cardinality(queues) BETWEEN 1 AND 64)
);
CREATE INDEX worker_session_open ON worker_session (dispatcher_id) WHERE ended_at IS NULL;
