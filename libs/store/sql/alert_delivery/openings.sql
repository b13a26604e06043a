-- What was told of the opening of the alerts $1, to which channel. No row for an alert that nobody is told of.
SELECT alert_id, channel_id, body FROM alert_delivery WHERE alert_id = ANY($1::uuid[]) AND event = 'OPENED'
