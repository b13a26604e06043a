-- Tokens that can be listed and revoked, and limits of what a tenant may define.

ALTER TABLE api_token
    ADD COLUMN last_used_at timestamptz,             -- to a minute or so; in no index, so that noting it is cheap
    ADD COLUMN created_by text CHECK (length(created_by) <= 128);
CREATE INDEX api_token_by_name ON api_token (tenant_id, name, id);

-- What a tenant may define and see; NULL is no limit, and no row is none at all. What it gets of the workers is in `tenant`,
-- which the claims lock: whoever counts what a tenant has locks this row instead, and keeps no run waiting.
CREATE TABLE tenant_limit (
    tenant_id         uuid PRIMARY KEY REFERENCES tenant,
    generation        bigint NOT NULL DEFAULT 1 CHECK (generation >= 1),
    max_jobs          integer CHECK (max_jobs BETWEEN 0 AND 10000000),
    min_interval_s    integer CHECK (min_interval_s BETWEEN 1 AND 31536000),
    max_payload_bytes integer CHECK (max_payload_bytes BETWEEN 1 AND 65536),
    history_days      integer CHECK (history_days BETWEEN 1 AND 3650)
);
