//! Channels that others look for, change and delete at the same time.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::ids::TenantId;
use stack::wait::wait_for;
use std::time::Duration;
use store::alert_channel;
use support::Cell;

const SOON: Duration = Duration::from_secs(20);

fn insert(name: &str) -> String {
    format!(
        "INSERT INTO alert_channel (id, tenant_id, created_at, name, kind, url)
         VALUES (gen_random_uuid(), '{}', esc_now(), '{name}', 'WEBHOOK', 'http://127.0.0.1:1/')",
        TenantId::DEFAULT
    )
}

#[tokio::test]
async fn a_channel_that_nothing_keeps_is_not_said_to_be_there() {
    let cell = Cell::create().await;
    let (side, look) = (cell.connect().await, cell.connect().await);
    side.batch_execute(&insert("early")).await.unwrap();
    side.batch_execute("BEGIN; SELECT 1 FROM alert_channel FOR UPDATE").await.unwrap();
    let mut client = cell.store.client("hold channels").await.unwrap();
    let tx = client.begin("hold channels").await.unwrap();
    let names = ["early", "late"];
    let hold = alert_channel::hold(&tx, TenantId::DEFAULT, &names);
    // "late" is stored while the lock of "early" is waited for, so it is not among those that are locked.
    let meanwhile = async {
        let waits =
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        let waiting = async || (!look.query(waits, &[]).await.unwrap().is_empty()).then_some(());
        wait_for(SOON, "the wait for the lock", waiting).await;
        side.batch_execute(&format!("{}; COMMIT", insert("late"))).await.unwrap();
    };
    let (held, ()) = tokio::join!(hold, meanwhile);
    let held: Vec<_> = held.unwrap().into_iter().map(|channel| channel.name).collect();
    assert_eq!(held, ["early"]);
}
