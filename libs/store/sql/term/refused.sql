-- Notes that the leadership $2 of role $1, held by $3, was refused by the fence. The one write of a ticker without the
-- fence: it touches nothing but the row of the leadership that is over.
UPDATE term SET ended_at = coalesce(ended_at, esc_now()), ended_how = 'FENCED'
WHERE role = $1 AND revision = $2 AND holder = $3 AND ended_how IS DISTINCT FROM 'RESIGNED'
