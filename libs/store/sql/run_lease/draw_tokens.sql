-- Gives a token to each lease that claim $1 took for the sessions $2. In a statement after the one that took them: by
-- then every lease is ours, so that of two leases of one job the later one has the higher token.
UPDATE run_lease l SET token = (e.epoch::bigint << 44) | nextval('token_seq')
FROM epoch e
WHERE l.session_id = ANY($2::uuid[]) AND l.claim_id = $1 AND l.token = 0
