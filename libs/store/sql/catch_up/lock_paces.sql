-- Locks the paces of the tenants $1, in order, and says where they are: one that has none yet begins now. No row for a
-- tenant that does not exist. The insert waits for whoever holds the row and then answers with what is stored.
WITH locked AS (
    INSERT INTO catch_up_pace AS p (tenant_id, next_at)
    SELECT t.id, esc_now() FROM tenant t WHERE t.id = ANY($1::uuid[]) ORDER BY t.id
    ON CONFLICT (tenant_id) DO UPDATE SET next_at = p.next_at
    RETURNING tenant_id, next_at
)
SELECT l.tenant_id, l.next_at, t.catch_up_per_second AS per_second FROM locked l JOIN tenant t ON t.id = l.tenant_id
