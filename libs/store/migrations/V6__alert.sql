-- What the watchdog found, and the outbox that tells it.

CREATE TABLE alert_channel (
    id         uuid PRIMARY KEY,
    tenant_id  uuid NOT NULL REFERENCES tenant,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    kind       text NOT NULL CHECK (kind IN ('WEBHOOK')),
    url        text NOT NULL CHECK (length(url) <= 2048),
    secret     text CHECK (length(secret) <= 256)
);
CREATE UNIQUE INDEX alert_channel_by_name ON alert_channel (tenant_id, name) WHERE deleted_at IS NULL;

-- One judged occurrence that had no success by its deadline; written in the transaction that moves the cursor.
CREATE TABLE verdict (
    job_id     uuid NOT NULL,
    occurrence timestamptz NOT NULL,
    judged_at  timestamptz NOT NULL,
    deadline   timestamptz NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('NO_SUCCESS')),
    cause      text NOT NULL CHECK (length(cause) <= 32),
    PRIMARY KEY (job_id, occurrence, kind)
);

-- One per (job, kind) while open, with first, last and count: a per-second job is one alert, not 3,600.
CREATE TABLE alert (
    id               uuid PRIMARY KEY,
    tenant_id        uuid NOT NULL REFERENCES tenant,
    job_id           uuid,
    first_occurrence timestamptz,
    last_occurrence  timestamptz,
    opened_at        timestamptz NOT NULL,
    resolved_at      timestamptz,
    count            bigint NOT NULL DEFAULT 1,
    kind             text NOT NULL CHECK (length(kind) <= 32),
    cause            text NOT NULL CHECK (length(cause) <= 32),
    detail           text NOT NULL DEFAULT '' CHECK (length(detail) <= 2048)
);
CREATE UNIQUE INDEX alert_one_open ON alert (job_id, kind) WHERE resolved_at IS NULL;

-- The outbox: one row for each (event, channel), each with its own retry schedule. The body is what is signed
-- and sent, byte for byte, at every try.
CREATE TABLE alert_delivery (
    id           uuid PRIMARY KEY,                   -- the event id that receivers see at every try
    alert_id     uuid NOT NULL REFERENCES alert,
    channel_id   uuid NOT NULL REFERENCES alert_channel,
    created_at   timestamptz NOT NULL,
    next_try_at  timestamptz NOT NULL,
    delivered_at timestamptz,
    given_up_at  timestamptz,
    sequence     bigint GENERATED ALWAYS AS IDENTITY,
    tries        integer NOT NULL DEFAULT 0,
    last_status  integer,
    event        text NOT NULL CHECK (event IN ('OPENED', 'RESOLVED')),
    body         text NOT NULL CHECK (length(body) <= 65536),
    last_error   text CHECK (length(last_error) <= 1024),
    UNIQUE (alert_id, channel_id, event)
);
CREATE INDEX alert_delivery_due ON alert_delivery (channel_id, next_try_at) WHERE delivered_at IS NULL AND given_up_at IS NULL;
