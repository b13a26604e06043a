//! The process: that it can be stopped at any time, also while what it needs is not there yet.
#![allow(clippy::expect_used, reason = "a test that can't go on has failed")]

use stack::process::{ManagedChild, Spec};
use stack::testkit::TempFolder;
use stack::wait::wait_for;
use std::time::Duration;

/// For anything that takes milliseconds unless the machine is busy; far below the wait for a database.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test]
async fn it_ends_when_asked_to_while_it_waits_for_the_database() {
    let folder = TempFolder::create("watchdog").expect("a folder");
    let spec =
        Spec::new("watchdog", env!("CARGO_BIN_EXE_escapement-watchdog"), folder.path().join("watchdog.log"))
            .clear_env()
            // Nobody listens on port 1.
            .env("ESCAPEMENT_DATABASE_URL", "postgres://nobody@127.0.0.1:1/none")
            .env("ESCAPEMENT_ETCD_ENDPOINTS", "http://127.0.0.1:1");
    let mut process = ManagedChild::spawn(&spec).expect("a process");
    wait_for(SOON, "its first line, written after its signal handlers are there", async || {
        assert!(process.exited().expect("a state").is_none(), "it ended: {}", process.log_tail());
        (!process.log_tail().is_empty()).then_some(())
    })
    .await;
    let status = process.terminate(SOON).await.expect("it ends in time");
    assert!(status.success(), "{status}: {}", process.log_tail());
}
