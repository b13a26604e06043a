-- What running attempts show while they run, and workers that do not hear what they are told.

-- One row a run: what its attempt showed last. Not logged: after a crash the next second shows it again, and what is kept
-- of an attempt is in run_output.
CREATE UNLOGGED TABLE run_live (
    job_id        uuid NOT NULL,
    scheduled_for timestamptz NOT NULL,
    at            timestamptz NOT NULL,
    "offset"      bigint NOT NULL CHECK ("offset" >= 0), -- bytes of output before the tail
    fraction      double precision CHECK (fraction BETWEEN 0 AND 1),
    attempt       integer NOT NULL,
    tail          bytea NOT NULL CHECK (octet_length(tail) <= 16384),
    note          text NOT NULL DEFAULT '' CHECK (length(note) <= 256),
    PRIMARY KEY (job_id, scheduled_for)
) WITH (fillfactor = 70);
CREATE INDEX run_live_by_age ON run_live (at);

-- How often in a row the session was resumed without a word since: its worker speaks and does not hear.
ALTER TABLE worker_session ADD COLUMN unheard integer NOT NULL DEFAULT 0;
