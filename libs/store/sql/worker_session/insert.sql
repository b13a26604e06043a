-- A new session $1 with dispatcher $2, for tenant $3 (NULL: every one). $4..$7: name, version, queues, slots.
INSERT INTO worker_session (id, dispatcher_id, tenant_id, connected_at, slots, name, version, queues)
VALUES ($1, $2, $3, esc_now(), $7, $4, $5, $6)
