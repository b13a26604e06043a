-- Sends an invoice. $1 occurrence, $2 customer, $3 who sends it.
INSERT INTO invoice (occurrence, customer, sent_by) VALUES ($1, $2, $3)
