-- Channels of every kind, which alerts they want, and how telling goes. A row that the release before wrote is a webhook
-- that wants everything; a channel of another kind has no address that the release before could call.

ALTER TABLE alert_channel
    DROP CONSTRAINT alert_channel_kind_check,
    ADD CONSTRAINT alert_channel_kind_check CHECK (kind IN ('WEBHOOK', 'ALERTMANAGER', 'PAGERDUTY', 'SLACK', 'EMAIL')),
    DROP CONSTRAINT alert_channel_secret_check,
    ADD CONSTRAINT alert_channel_secret_check CHECK (length(secret) <= 2048),
    ADD COLUMN system boolean,                       -- told of the system's own alerts; NULL: as the tenant is
    ADD COLUMN target jsonb CHECK (length(target::text) <= 16384),
    ADD COLUMN accepts jsonb NOT NULL DEFAULT '{}' CHECK (length(accepts::text) <= 16384),
    ADD CONSTRAINT alert_channel_leads_somewhere CHECK ((kind = 'WEBHOOK') = (target IS NULL));

-- What a receiver forgets unless it is told again and again; NULL: it does not.
ALTER TABLE alert_delivery ADD COLUMN refresh_at timestamptz;
CREATE INDEX alert_delivery_refresh ON alert_delivery (refresh_at) WHERE refresh_at IS NOT NULL;
CREATE INDEX alert_delivery_of_channel ON alert_delivery (channel_id, sequence DESC);

-- The channels whose last try failed: one try at a time, and none before next_try_at.
CREATE TABLE channel_failure (
    channel_id    uuid PRIMARY KEY REFERENCES alert_channel,
    failing_since timestamptz NOT NULL,
    next_try_at   timestamptz NOT NULL,
    failures      integer NOT NULL,
    last_status   integer,
    last_error    text CHECK (length(last_error) <= 1024)
) WITH (fillfactor = 50);

-- Somebody asked whether a channel works. Rows last minutes.
CREATE TABLE channel_test (
    id         uuid PRIMARY KEY,
    channel_id uuid NOT NULL REFERENCES alert_channel,
    created_at timestamptz NOT NULL,
    taken_at   timestamptz,
    ended_at   timestamptz,
    received   boolean,
    status     integer,
    error      text CHECK (length(error) <= 1024),
    CHECK ((ended_at IS NULL) = (received IS NULL))
);
CREATE INDEX channel_test_waiting ON channel_test (created_at) WHERE taken_at IS NULL;
CREATE INDEX channel_test_by_age ON channel_test (created_at);
