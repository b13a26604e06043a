-- The fence of every role. Two rows.
SELECT role, revision, holder, raised_at FROM fence ORDER BY role
