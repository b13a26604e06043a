-- Shows that dispatcher $1 lives. $2..$5: pid, name, the address of its stream, of its pages.
INSERT INTO dispatcher AS d (id, started_at, renewed_at, pid, name, address, http)
VALUES ($1, esc_now(), esc_now(), $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE SET counter = d.counter + 1, renewed_at = esc_now()
