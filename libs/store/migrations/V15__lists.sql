-- Lists that people ask for, and what became of runs for those who watch.

-- Names in an order that is the same on every server, whatever its locale: pages and prefixes rely on it.
CREATE INDEX job_by_name_c ON job (tenant_id, name COLLATE "C") WHERE deleted_at IS NULL;
CREATE INDEX job_by_queue ON job (tenant_id, (definition ->> 'queue'), name COLLATE "C") WHERE deleted_at IS NULL;
CREATE INDEX job_by_label ON job USING gin ((definition -> 'labels') jsonb_path_ops) WHERE deleted_at IS NULL;
CREATE INDEX job_paused ON job (tenant_id, name COLLATE "C") WHERE deleted_at IS NULL AND paused_at IS NOT NULL;
CREATE INDEX job_by_update ON job (tenant_id, updated_at, id) WHERE deleted_at IS NULL;

-- Runs of a tenant across its jobs, by time. Nothing here changes when a run ends, so that this stays in place.
CREATE INDEX run_of_tenant ON run (tenant_id, scheduled_for, job_id);
-- Ends other than success, without a walk over the successes between them.
CREATE INDEX run_outcome_of_tenant ON run_outcome (tenant_id, state, scheduled_for, job_id) WHERE final;

-- What became of runs, for those who watch: insert-only, a row for each transaction, tenant and kind, not for each run.
-- Who watches takes what a later snapshot sees and the one before did not see: commits can't reorder that. `id` is drawn
-- while the runs are locked, so that of one run they rise.
CREATE TABLE run_event (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant_id     uuid NOT NULL,
    at            timestamptz NOT NULL,
    xid           xid8 NOT NULL DEFAULT pg_current_xact_id(),
    phase         text NOT NULL CHECK (phase IN ('RUNNING', 'RETRYING', 'SUCCEEDED', 'FAILED', 'TIMED_OUT', 'LOST', 'CANCELLED', 'SKIPPED')),
    reason        text,
    job_id        uuid[] NOT NULL,
    scheduled_for timestamptz[] NOT NULL,
    attempt       integer[] NOT NULL                 -- 0: never handed out
);
CREATE INDEX run_event_by_xid ON run_event (tenant_id, xid);
CREATE INDEX run_event_by_age ON run_event USING brin (at) WITH (autosummarize = on);

-- The highest transaction whose events were forgotten: who has not seen all up to it has missed some.
CREATE TABLE run_event_floor (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    xid      xid8 NOT NULL
);
INSERT INTO run_event_floor (xid) VALUES ('0');
