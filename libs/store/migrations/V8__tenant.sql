-- What a tenant gets of the workers: its share while others want them too, and its limits. NULL is no limit.

ALTER TABLE tenant
    ADD COLUMN weight integer NOT NULL DEFAULT 1 CHECK (weight BETWEEN 1 AND 100),
    ADD COLUMN max_running integer CHECK (max_running BETWEEN 0 AND 1000000),
    ADD COLUMN max_starts_per_second integer CHECK (max_starts_per_second BETWEEN 1 AND 100000),
    ADD COLUMN starts_through timestamptz,           -- its bucket of starts was or would be empty then
    ADD COLUMN held_from timestamptz,                -- the last time that a limit kept its runs waiting
    ADD COLUMN held_through timestamptz,
    ADD CONSTRAINT held_from_and_through
        CHECK ((held_from IS NULL) = (held_through IS NULL) AND held_from <= held_through);
ALTER TABLE tenant SET (fillfactor = 50);

-- How many runs of one of its queues may be with workers at a time.
CREATE TABLE queue_limit (
    tenant_id    uuid NOT NULL REFERENCES tenant,
    held_from    timestamptz,
    held_through timestamptz,
    max_running  integer NOT NULL CHECK (max_running BETWEEN 0 AND 1000000),
    queue        text NOT NULL CHECK (length(queue) BETWEEN 1 AND 63),
    PRIMARY KEY (tenant_id, queue),
    CONSTRAINT held_from_and_through
        CHECK ((held_from IS NULL) = (held_through IS NULL) AND held_from <= held_through)
) WITH (fillfactor = 50);

-- What counts against the limits: the runs that workers have, not those that wait for a retry.
CREATE INDEX run_lease_running ON run_lease (tenant_id, queue) WHERE session_id IS NOT NULL;

-- A claim's own leases are found beside those of its sessions that are gone and that an old snapshot still sees.
DROP INDEX run_lease_session;
CREATE INDEX run_lease_session ON run_lease (session_id, claim_id);

-- What is due, whatever its priority: one look for each tenant and queue, which steps over no row that is not due, nor
-- over those that are gone and older. A claim then takes rows by priority.
CREATE INDEX run_queue_due ON run_queue (tenant_id, queue, due_at);
ALTER TABLE run_queue ADD CONSTRAINT priority_is_a_digit CHECK (priority BETWEEN 0 AND 9);
