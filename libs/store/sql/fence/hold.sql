-- Keeps the fence of role $1 as it is until the caller's transaction ends: a later leader waits for it to raise the
-- fence. One row. A statement of its own: a fence in a CTE that nobody reads is never looked at.
SELECT revision, holder FROM fence WHERE role = $1 FOR SHARE
