-- The newest $2 reports of check-in $1, the newest first.
SELECT at, kind, message FROM check_in_report WHERE check_in_id = $1 ORDER BY at DESC, sequence DESC LIMIT $2
