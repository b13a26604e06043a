-- Notes that the leadership $2 of role $1 finished the cycle that began at $3, and that every occurrence through $4 has
-- its row (NULL: not known, what was known stays). The caller holds the fence.
UPDATE term SET last_cycle_at = $3, planned_through = coalesce($4, planned_through) WHERE role = $1 AND revision = $2
