-- Shows that dispatcher $1 lives; a silence of more than 5 seconds is kept, for the misfire policy's search for causes.
-- $2..$5: pid, name, the address of its stream, of its pages. One row: what the clock shows.
INSERT INTO dispatcher AS d (id, started_at, renewed_at, pid, name, address, http)
VALUES ($1, esc_now(), esc_now(), $2, $3, $4, $5)
ON CONFLICT (id) DO UPDATE
SET counter = d.counter + 1, renewed_at = excluded.renewed_at,
    silent_from = CASE WHEN excluded.renewed_at - d.renewed_at > interval '5 seconds' THEN d.renewed_at ELSE d.silent_from END,
    silent_through = CASE WHEN excluded.renewed_at - d.renewed_at > interval '5 seconds' THEN excluded.renewed_at
                          ELSE d.silent_through END
RETURNING renewed_at
