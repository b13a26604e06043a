//! The ledger lets its old days go, and never an open run with them.

use harness::{Cell, PATIENCE, job, noop};
use serde_json::json;
use stack::dev::{Options, Role};
use stack::wait::{try_wait_for, wait_for};
use std::time::Duration;

/// The days of the ledger before today, the oldest first, as `YYYYMMDD`.
const DAYS: &str = "SELECT coalesce(string_agg(right(c.relname, 8), ' ' ORDER BY c.relname), '') \
                    FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid \
                    WHERE i.inhparent = 'run'::regclass AND right(c.relname, 8) < to_char(esc_now(), 'YYYYMMDD')";

/// How long a ticker needs at most from its start until everything that its first look finds is gone.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

const STOP_GRACE: Duration = Duration::from_secs(10);

/// Restarts the ticker, which then looks what is old enough, until the days before today are those: at each look the
/// floor rises by a day.
async fn let_go_until(cell: &mut Cell, expected: &[&str]) {
    let expected = expected.join(" ");
    wait_for(PATIENCE, &format!("the days before today to be {expected}"), async || {
        let ticker = cell.stack.service("ticker-1").expect("the ticker");
        ticker.process().terminate(STOP_GRACE).await.expect("stopped");
        cell.stack.restart("ticker-1").await.expect("it starts again");
        let gone = async || (cell.sql(DAYS).await == expected).then_some(());
        try_wait_for(LOOK_LIMIT, "the days to go", gone).await.ok()
    })
    .await;
}

#[tokio::test]
async fn an_open_run_outlives_its_day_and_nothing_is_filled_in_below_the_floor() {
    let mut cell = Cell::start_with(|options| {
        let settings = "retention_days = 2\nclock_jump_guard_ms = 0\nplan_every_ms = 50";
        Options { tickers: 1, ..options }.setting(Role::Ticker, settings)
    })
    .await;
    cell.leader().await;
    let mut waits = job("waits", "0 0 1 1 *", noop());
    waits["queue"] = json!("nobody");
    cell.api.create(waits).await;
    let run = cell.api.post("/v1/jobs/waits:trigger", json!({})).await.expect("triggered");
    let day = cell.sql("SELECT to_char(scheduled_for, 'YYYYMMDD') FROM run").await;
    assert!(!cell.sql(DAYS).await.is_empty(), "there are older days");

    // The floor rises by a day at a look; what is before the run's day needn't take as many.
    cell.sql("UPDATE ledger_floor SET floor = date_trunc('day', esc_now(), 'UTC')").await;
    cell.sql("UPDATE clock_shift SET shift = interval '5 days'").await;
    let kept = cell.sql("SELECT to_char(esc_now() - n * interval '1 day', 'YYYYMMDD') FROM generate_series(1, 2) n ORDER BY 1").await;
    let mut expected: Vec<_> = kept.lines().collect();
    expected.insert(0, &day);
    let_go_until(&mut cell, &expected).await;
    let path = format!("/v1/jobs/waits/runs/{}", run["scheduledFor"].as_str().expect("an instant"));
    assert_eq!(cell.api.get(&path).await.expect("it is there")["state"], "WAITING");

    let range = json!({"from": format!("{}-{}-{}T00:00:00Z", &day[..4], &day[4..6], &day[6..]), "to": run["scheduledFor"]});
    cell.api.create(job("each-minute", "* * * * *", noop())).await;
    let refused = cell.api.post("/v1/jobs/each-minute:backfill", range).await.expect_err("below the floor");
    assert_eq!(refused.status, 400, "{}", refused.problem);

    cell.api.post(&format!("{path}:cancel"), json!({})).await.expect("cancelled");
    let_go_until(&mut cell, &kept.lines().collect::<Vec<_>>()).await;
    assert_eq!(cell.api.get(&path).await.expect_err("its day is gone").status, 404);
    let status = cell.prints(&["status"]);
    assert!(status.contains(" in 3 days, the oldest "), "{status}");
    cell.stop().await;
}
