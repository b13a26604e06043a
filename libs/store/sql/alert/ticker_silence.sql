-- When a ticker finished its last cycle, and the clock. One row; NULL when none ever did.
SELECT (SELECT t.last_cycle_at FROM term t WHERE t.role = 'ticker' AND t.last_cycle_at IS NOT NULL
        ORDER BY t.began_at DESC LIMIT 1) AS last_cycle_at, esc_now() AS at
