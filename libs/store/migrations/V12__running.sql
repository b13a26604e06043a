-- Counts the runs of a tenant's queue that workers have, as before; but for all open runs, those that wait for a retry too.
-- As it was, every statement that names a session could use it, and while the table is thought to be empty one index is as
-- good as another: a claim then read all open runs, of everybody, for those of its own.
DROP INDEX run_lease_running;
CREATE INDEX run_lease_running ON run_lease (tenant_id, queue);
