-- What tenant $1 gets of the workers. No row: there is no such tenant. `queues` and `running_max` are arrays of one length.
SELECT t.weight, t.max_running, t.max_starts_per_second,
       ARRAY(SELECT l.queue FROM queue_limit l WHERE l.tenant_id = t.id ORDER BY l.queue) AS queues,
       ARRAY(SELECT l.max_running FROM queue_limit l WHERE l.tenant_id = t.id ORDER BY l.queue) AS running_max
FROM tenant t WHERE t.id = $1
