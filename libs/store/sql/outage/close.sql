-- Outage number $1 is over: the next one has the next number. No row: somebody else has noted that.
UPDATE outage SET next = $1 + 1 WHERE next = $1 RETURNING next
