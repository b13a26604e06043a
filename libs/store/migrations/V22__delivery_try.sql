-- Each try of a delivery, for whoever asks why a message came late: alert_delivery knows the last one only.

-- A repetition takes the delivery row of the one before; its tries stay those of their own id.
CREATE TABLE delivery_try (
    alert_id    uuid NOT NULL REFERENCES alert ON DELETE CASCADE,
    channel_id  uuid NOT NULL REFERENCES alert_channel,
    delivery_id uuid NOT NULL,
    at          timestamptz NOT NULL,                -- when it ended
    sequence    bigint GENERATED ALWAYS AS IDENTITY,
    try         integer NOT NULL,                    -- counted from 1
    status      integer,                             -- NULL: no answer, or nothing was to be sent
    error       text CHECK (length(error) <= 1024),  -- NULL: it was received
    PRIMARY KEY (alert_id, channel_id, sequence)
);
CREATE INDEX delivery_try_by_age ON delivery_try USING brin (at) WITH (autosummarize = on);
