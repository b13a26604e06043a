//! What happens to a lease is written in place: neither drawing its token nor its acceptance touches an index.
#![allow(clippy::unwrap_used)]

mod support;

use support::Cell;

const LIFE: &str = "
    INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                           undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
    SELECT gen_random_uuid(), '00000000-0000-4000-8000-000000000001', '00000000-0000-4000-a000-000000000001',
           '00000000-0000-4000-b000-000000000001', '2026-01-01T00:00:00Z', esc_now(), 1, 0, 5, 0, 0, 0, 1, 1, 'SCHEDULE', true,
           'a-queue-of-some-length' FROM generate_series(1, 500);
    UPDATE run_lease SET token = nextval('token_seq') WHERE token = 0;
    UPDATE run_lease SET accepted_at = esc_now(), deadline = esc_now() + interval '1 hour' WHERE accepted_at IS NULL;";

#[tokio::test]
async fn tokens_and_acceptances_are_written_in_place() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    for _ in 0..10 {
        client.batch_execute(LIFE).await.unwrap();
    }
    client.batch_execute("SELECT pg_stat_force_next_flush()").await.unwrap();
    let sql = "SELECT n_tup_hot_upd, n_tup_upd FROM pg_stat_user_tables WHERE relid = 'run_lease'::regclass";
    let row = client.query_one(sql, &[]).await.unwrap();
    let (hot, all): (i64, i64) = (row.get(0), row.get(1));
    assert_eq!(all, 10_000);
    assert!(hot * 100 >= all * 95, "{hot} of {all} in place");
}
