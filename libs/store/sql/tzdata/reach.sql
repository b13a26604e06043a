-- Notes that the jobs through $1 are planned with the timezone database in use (NULL: all are). The caller holds the fence.
UPDATE tzdata SET reached = $1
