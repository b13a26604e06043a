-- Job $1 as it stays until the caller's transaction ends: nobody changes, pauses or deletes it meanwhile. Look at it in
-- the next statement. No row: there is none.
SELECT id FROM job WHERE id = $1 FOR SHARE
