-- Moves the locked check-ins $1 on; $2..$5 are arrays of one length: judged_through, looked_through, started_at, judge_at.
UPDATE check_in c
SET judged_through = n.judged_through, looked_through = n.looked_through, started_at = n.started_at, judge_at = n.judge_at
FROM unnest($1::uuid[], $2::timestamptz[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[])
    AS n(id, judged_through, looked_through, started_at, judge_at)
WHERE c.id = n.id
