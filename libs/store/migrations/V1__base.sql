-- The clock, tenants, tokens and the audit trail. Every table lives in the cell's schema, which the session's
-- search_path names; nothing here is qualified.

-- How far the cell's clock is shifted; zero in production. Tests move it so that an hour need not take an hour.
CREATE TABLE clock_shift (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    shift    interval NOT NULL DEFAULT interval '0'
);
INSERT INTO clock_shift DEFAULT VALUES;

-- The one clock that decides. In a condition on an index write (SELECT esc_now()), which is evaluated once.
CREATE FUNCTION esc_now() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS $$ SELECT clock_timestamp() + (SELECT shift FROM clock_shift) $$;

CREATE TABLE tenant (
    id         uuid PRIMARY KEY,
    name       text NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 63),
    created_at timestamptz NOT NULL DEFAULT esc_now()
);
INSERT INTO tenant (id, name) VALUES ('00000000-0000-4000-8000-000000000001', 'default');

-- Bearer tokens: 256 random bits, stored as their SHA-256. Only a worker token may serve every tenant (NULL).
CREATE TABLE api_token (
    id         uuid PRIMARY KEY,
    tenant_id  uuid REFERENCES tenant,
    name       text NOT NULL CHECK (length(name) BETWEEN 1 AND 63),
    role       text NOT NULL CHECK (role IN ('ADMIN', 'EDITOR', 'VIEWER', 'WORKER')),
    prefix     text NOT NULL CHECK (length(prefix) BETWEEN 4 AND 16),
    hash       bytea NOT NULL UNIQUE CHECK (octet_length(hash) = 32),
    created_at timestamptz NOT NULL DEFAULT esc_now(),
    expires_at timestamptz,
    revoked_at timestamptz,
    CHECK (tenant_id IS NOT NULL OR role = 'WORKER')
);

-- Who changed what, secrets left out. Append-only.
CREATE TABLE audit_event (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT esc_now(),
    tenant_id uuid NOT NULL REFERENCES tenant,
    actor     text NOT NULL CHECK (length(actor) <= 128),
    action    text NOT NULL CHECK (length(action) <= 64),
    object    text NOT NULL CHECK (length(object) <= 256),
    detail    jsonb NOT NULL DEFAULT '{}'
);
CREATE INDEX audit_event_by_time ON audit_event (tenant_id, at);
