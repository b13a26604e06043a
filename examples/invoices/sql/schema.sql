-- What the billing system has sent. Deliberately without a key that would make an invoice single: the numbers of the
-- example show what schedulers and guard do, not what an index would hide.
CREATE TABLE invoice (
    occurrence text NOT NULL,
    customer text NOT NULL,
    sent_by text NOT NULL,
    sent_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
