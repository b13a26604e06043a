-- Ends of runs through $1 were looked at.
UPDATE outcome_watch SET through = greatest(through, $1)
