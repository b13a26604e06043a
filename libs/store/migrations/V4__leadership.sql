-- Leadership as the database knows it, and where fencing tokens come from.

-- The highest leadership by role. Every write of a leader first reads its own row here FOR SHARE.
CREATE TABLE fence (
    role      text PRIMARY KEY CHECK (role IN ('ticker', 'watchdog')),
    revision  bigint NOT NULL,
    holder    uuid NOT NULL,
    raised_at timestamptz NOT NULL DEFAULT esc_now()
);
INSERT INTO fence (role, revision, holder)
VALUES ('ticker', 0, '00000000-0000-0000-0000-000000000000'), ('watchdog', 0, '00000000-0000-0000-0000-000000000000');

-- Every leadership: from, to, how it ended, and how far it had planned.
CREATE TABLE term (
    role            text NOT NULL REFERENCES fence,
    revision        bigint NOT NULL,
    holder          uuid NOT NULL,
    began_at        timestamptz NOT NULL,
    ended_at        timestamptz,
    last_cycle_at   timestamptz,
    planned_through timestamptz,
    predecessor     bigint,                          -- the leadership before it
    gap_ms          bigint,                          -- from the predecessor's last cycle to our first
    pid             integer NOT NULL,
    name            text NOT NULL CHECK (length(name) <= 128),
    http            text NOT NULL CHECK (length(http) <= 256),
    ended_how       text CHECK (ended_how IN ('RESIGNED', 'LOST', 'FENCED')),
    PRIMARY KEY (role, revision)
) WITH (fillfactor = 50);

-- Which database this is. A token is epoch << 44 | nextval('token_seq'); a database that is not the one named
-- here (failed over, restored) gets a higher epoch before anything is claimed.
CREATE TABLE epoch (
    only_row          boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    epoch             integer NOT NULL CHECK (epoch BETWEEN 0 AND 524287),
    timeline          integer NOT NULL,
    system_identifier bigint NOT NULL,
    changed_at        timestamptz NOT NULL
);
CREATE SEQUENCE token_seq AS bigint MINVALUE 1 MAXVALUE 17592186044415 CACHE 1 NO CYCLE;

-- The timeline of this server, as its write-ahead log names it: right at once after a promotion. Fails on a
-- standby, where nothing may be claimed anyway.
CREATE FUNCTION esc_timeline() RETURNS integer LANGUAGE sql VOLATILE
    AS $$ SELECT ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer $$;
