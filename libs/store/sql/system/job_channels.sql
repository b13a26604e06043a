-- The channels that the definition of job $1 names. No row: there is no such job.
SELECT ARRAY(SELECT jsonb_array_elements_text(definition -> 'alert' -> 'channels')) AS names FROM job WHERE id = $1
