-- Raises the locked fence of role $1 to revision $2, held by $3. One row.
UPDATE fence SET revision = $2, holder = $3, raised_at = esc_now() WHERE role = $1 RETURNING raised_at
