-- Forgets the leadership of role $1, so that a lower revision can be raised: after etcd was rebuilt. No row: no
-- such role.
UPDATE fence SET revision = 0, holder = '00000000-0000-0000-0000-000000000000', raised_at = esc_now()
WHERE role = $1
RETURNING role
