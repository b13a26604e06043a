-- Telling what concerns many at once, and what can't be told by way of this database.

-- Whom a group of alerts is to be told, which have one cause: how much of it concerns the channel, and whether it was told.
CREATE TABLE alert_group (
    alert_id   uuid NOT NULL REFERENCES alert ON DELETE CASCADE, -- the one that stands for all
    channel_id uuid NOT NULL REFERENCES alert_channel,
    since      timestamptz NOT NULL,
    told_at    timestamptz,
    count      bigint NOT NULL CHECK (count >= 1),
    examples   text[] NOT NULL CHECK (cardinality(examples) <= 5),
    PRIMARY KEY (alert_id, channel_id)
);
CREATE INDEX alert_group_untold ON alert_group (alert_id) WHERE told_at IS NULL;

-- Outages of this database, by number: all watchdogs tell of one outage under one number, without a word to each other.
CREATE TABLE outage (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    next     bigint NOT NULL DEFAULT 1 CHECK (next >= 1) -- the number of the next one
);
INSERT INTO outage DEFAULT VALUES;
