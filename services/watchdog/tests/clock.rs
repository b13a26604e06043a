//! The database's clock jumps: nobody is paged for what only the jump made late.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd};
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use support::{Cell, definition, rows};

const LIMIT: Duration = Duration::from_secs(30);
/// For how long the clock must have been steady.
const AGREEMENT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn nothing_is_judged_until_a_clock_that_jumped_is_steady() {
    let folder = TempFolder::create("clock").expect("a folder");
    let cell = Cell::create().await;
    store::clock::shift(&cell.store, 0).await.expect("the real time");
    let endpoints = folder.path().join("watchdog.json");
    let spec = Spec::new("watchdog", env!("CARGO_BIN_EXE_escapement-watchdog"), folder.path().join("log"))
        .clear_env()
        .arg(format!("--endpoints-file={}", endpoints.display()))
        .env("ESCAPEMENT_DATABASE_URL", &cell.url)
        .env("ESCAPEMENT_ETCD_ENDPOINTS", shared_etcd().await.endpoints().join(","));
    let mut watchdog = ManagedChild::spawn(&spec).expect("spawned");
    cell.job("invoices", &definition("* * * * *", 5)).await;
    let leads = async || {
        let raised = rows!(cell, "SELECT revision FROM fence WHERE role = 'watchdog' AND revision > 0");
        (!raised.is_empty()).then_some(())
    };
    wait_for(LIMIT, "a leader", leads).await;
    // The leader has looked at the clock: its cursor is known, or will be within a check.
    tokio::time::sleep(Duration::from_secs(2)).await;

    let jumped = Instant::now();
    store::clock::shift(&cell.store, 3_600_000).await.expect("shifted");
    let verdicts = async || cell.number("SELECT count(*) FROM verdict").await;
    while jumped.elapsed() < AGREEMENT - Duration::from_secs(1) {
        assert_eq!(verdicts().await, 0, "judged after {:?}", jumped.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    wait_for(LIMIT, "what is judged once it is steady", async || (verdicts().await > 0).then_some(())).await;
    assert!(jumped.elapsed() >= AGREEMENT, "judged after {:?}", jumped.elapsed());
    let exit = watchdog.terminate(Duration::from_secs(10)).await.expect("it ends");
    assert!(exit.success(), "{exit}: {}", watchdog.log_tail());
}
