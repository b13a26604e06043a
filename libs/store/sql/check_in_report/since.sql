-- The reports of the check-ins $1 since $2 (arrays of one length; exclusive), in order.
SELECT r.check_in_id, r.at, r.kind, r.message
FROM unnest($1::uuid[], $2::timestamptz[]) AS k(id, since)
JOIN check_in_report r ON r.check_in_id = k.id AND r.at > k.since
ORDER BY r.check_in_id, r.at, r.sequence
