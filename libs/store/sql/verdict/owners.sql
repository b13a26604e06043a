-- Who answers for the jobs $1 now. No row for one that is deleted or paused, or whose owner wants no alert.
SELECT j.id, j.tenant_id, j.name, j.definition FROM job j
WHERE j.id = ANY($1::uuid[]) AND j.deleted_at IS NULL AND j.paused_at IS NULL
  AND NOT coalesce(j.definition -> 'alert' ->> 'disabled' = 'true', false)
