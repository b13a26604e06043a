-- The channels that the definition of job $1 names. No row: there is no such job.
SELECT ARRAY(SELECT jsonb_path_query(definition, '$.alert.channels[*] ? (@.type() == "string")') #>> '{}') AS names FROM job WHERE id = $1
