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

/// What a dispatcher does for each run, with parameters.
const FOR_EACH_RUN: [(&str, &str); 9] = [
    (
        include_str!("../sql/run_queue/claim.sql"),
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    ),
    (include_str!("../sql/run_lease/draw_tokens.sql"), "NULL, NULL"),
    (include_str!("../sql/run_lease/assignments.sql"), "NULL"),
    (include_str!("../sql/run_lease/lock.sql"), "NULL, NULL"),
    (include_str!("../sql/run_lease/read.sql"), "NULL, NULL, NULL"),
    (include_str!("../sql/run_lease/accept.sql"), "NULL, NULL, NULL, NULL, NULL, NULL, NULL"),
    (
        include_str!("../sql/run_lease/retry.sql"),
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    ),
    (include_str!("../sql/run_queue/lock.sql"), "NULL, NULL"),
    (
        include_str!("../sql/run/end.sql"),
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, now(), now(), NULL",
    ),
];

/// An index that is read from one end to the other is no better than the table.
#[tokio::test]
async fn a_plan_made_while_the_tables_are_empty_looks_for_each_row_by_its_key() {
    let cell = Cell::create().await;
    let client = cell.connect().await;
    let settings = "SET enable_seqscan = off; SET enable_bitmapscan = off; SET random_page_cost = 0.01; SET plan_cache_mode = force_generic_plan";
    client.batch_execute(settings).await.unwrap();
    client.execute("SELECT esc_make_partitions(current_date - 1, current_date + 1)", &[]).await.unwrap();
    client.batch_execute("VACUUM ANALYZE run_queue, run_lease, run").await.unwrap();
    for (number, (statement, parameters)) in FOR_EACH_RUN.into_iter().enumerate() {
        client.batch_execute(&format!("PREPARE s{number} AS {statement}")).await.unwrap();
        let rows = client.query(&format!("EXPLAIN EXECUTE s{number}({parameters})"), &[]).await.unwrap();
        let lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let plan = lines.join("\n");
        for (line, next) in lines.iter().zip(&lines[1..]) {
            // What is parked is little, and looked at for the few ends of runs that never started.
            if line.contains("Scan") && line.contains(" on run_") && !line.contains("run_parked") {
                // A claim looks for what is due in a queue, and counts what a tenant runs.
                let by_key =
                    ["job_id = ", "session_id = ", "(tenant_id = "].iter().any(|key| next.contains(key));
                let found = next.contains("TID Cond") || next.contains("Index Cond") && by_key;
                assert!(found, "{line}: all of it\n{plan}");
            }
        }
    }
}
