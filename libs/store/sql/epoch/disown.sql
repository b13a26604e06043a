-- Makes the epoch that of no server, so that no claim takes anything until a dispatcher has made a higher one. One row: the
-- epoch that was in use. No row: there is none yet.
UPDATE epoch SET system_identifier = 0, changed_at = esc_now() RETURNING epoch
