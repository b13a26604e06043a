-- Holds the sessions $1 against a resume or an end until the transaction is over, in order.
SELECT id FROM worker_session WHERE id = ANY($1::uuid[]) ORDER BY id FOR SHARE
