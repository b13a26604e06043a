-- Notes that plans are made with timezone database $1 from now on, through job $2 already (NULL: all). The caller holds the
-- fence.
INSERT INTO tzdata (version, changed_at, reached) VALUES ($1, esc_now(), $2)
ON CONFLICT (only_row) DO UPDATE
SET version = excluded.version, changed_at = excluded.changed_at, reached = excluded.reached
