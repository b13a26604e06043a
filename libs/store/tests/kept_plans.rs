//! Plans that are kept from when the hot tables were empty.
#![allow(clippy::unwrap_used)]

mod support;

use store::{Settings, Store};
use support::Cell;

const LOCK: &str = "EXPLAIN SELECT q.job_id FROM run_queue q
    JOIN unnest(ARRAY[gen_random_uuid()], ARRAY[now()]) AS k(job_id, scheduled_for) USING (job_id, scheduled_for)
    ORDER BY q.job_id, q.scheduled_for FOR UPDATE OF q";

#[tokio::test]
async fn a_plan_made_while_the_queue_is_empty_uses_its_index_all_the_same() {
    let cell = Cell::create().await;
    // As autovacuum leaves it after each herd: known to be empty.
    cell.connect().await.batch_execute("VACUUM ANALYZE run_queue").await.unwrap();
    assert!(plan(cell.settings()).await.contains("Seq Scan on run_queue"), "else the setting is for nothing");
    let mut settings = cell.settings();
    settings.by_index_only = true;
    let plan = plan(settings).await;
    assert!(plan.contains("Index Scan using run_queue_pkey"), "{plan}");
}

async fn plan(settings: Settings) -> String {
    let store = Store::new(settings).unwrap();
    let rows = store.client("explain").await.unwrap().query("explain", LOCK, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0) + "\n").collect()
}
