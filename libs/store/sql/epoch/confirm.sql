-- Notes that the epoch $1 was compared with its mark while the server was the one started at $2, and had the sequence $3:
-- as they were read together with what was compared. If the server is another by now, this confirms nothing of it.
UPDATE epoch SET compared_start = $2, compared_sequence = $3 WHERE epoch = $1
