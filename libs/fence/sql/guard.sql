-- First statement of every transaction in which a job writes. $1 guard key (text), $2 fencing token (bigint).
-- One row, without meaning. SQLSTATE ZF001: a higher token has written, and this transaction can only roll back.
SELECT escapement_guard($1, $2)
