-- A lease is written three times: taken, given its token, accepted. The two later ones are to be in place: no index on
-- what they write, and room for them on the page. Nothing looks for deadlines but by session.
DROP INDEX run_lease_deadline;
ALTER TABLE run_lease SET (fillfactor = 30);
