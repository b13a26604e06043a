-- Ends of runs through $1 were looked at, by what snapshot $2 of the server $3 sees.
UPDATE outcome_watch SET through = greatest(through, $1), seen = $2, server = $3
