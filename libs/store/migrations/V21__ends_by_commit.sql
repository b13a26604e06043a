-- Ends of runs are looked for by when they were committed too: a time that was written long before tells nothing of that.

-- What the last look could see, as a snapshot of this server; NULL: nothing is known of it, as the release before left it.
ALTER TABLE outcome_watch
    ADD COLUMN server bigint,
    ADD COLUMN seen   text CHECK (length(seen) <= 65536),
    ADD CONSTRAINT seen_by_a_server CHECK (seen IS NULL OR server IS NOT NULL);
