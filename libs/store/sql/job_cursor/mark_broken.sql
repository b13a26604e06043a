-- Marks the jobs $1, whose cursors are locked, as broken, and why ($2): they are not planned until they are changed.
WITH broken AS MATERIALIZED (
    SELECT b.job_id, b.problem FROM unnest($1::uuid[], $2::text[]) AS b(job_id, problem)
), stopped AS (
    UPDATE job_cursor k SET broken = true FROM broken b WHERE k.job_id = b.job_id
)
UPDATE job j SET broken = left(b.problem, 2048) FROM broken b WHERE j.id = b.job_id
