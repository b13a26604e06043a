-- What each look at the system sees first: the cell's clock, the server's own, when a ticker finished its last cycle (NULL:
-- none ever did), and when a dispatcher last renewed itself (NULL: there is none). One row.
SELECT esc_now() AS at, clock_timestamp() AS server_clock,
       (SELECT t.last_cycle_at FROM term t WHERE t.role = 'ticker' AND t.last_cycle_at IS NOT NULL
        ORDER BY t.began_at DESC LIMIT 1) AS ticker_cycle,
       (SELECT max(d.renewed_at) FROM dispatcher d) AS dispatcher_seen
