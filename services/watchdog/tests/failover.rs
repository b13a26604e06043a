//! Two real watchdog processes on real etcd and PostgreSQL: the leader is killed, and nothing is lost or doubled.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd};
use stack::wait::wait_for;
use std::path::Path;
use std::time::Duration;
use support::{Cell, Receiver, definition, rows};

const LIMIT: Duration = Duration::from_secs(30);

/// Starts a watchdog and waits until it is ready.
async fn start(cell: &Cell, folder: &Path, name: &str) -> ManagedChild {
    let endpoints = folder.join(format!("{name}.json"));
    let spec = Spec::new(name, env!("CARGO_BIN_EXE_escapement-watchdog"), folder.join(format!("{name}.log")))
        .clear_env()
        .arg(format!("--endpoints-file={}", endpoints.display()))
        .env("ESCAPEMENT_NAME", name)
        .env("ESCAPEMENT_DATABASE_URL", &cell.url)
        .env("ESCAPEMENT_ETCD_ENDPOINTS", shared_etcd().await.endpoints().join(","))
        .env("ESCAPEMENT_WEBHOOK_ALLOW_LOOPBACK", "true");
    let child = ManagedChild::spawn(&spec).expect("spawned");
    let published = async || std::fs::read(&endpoints).ok();
    let text = wait_for(LIMIT, "a watchdog's endpoints", published).await;
    let endpoints: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    let ready = format!("{}/readyz", endpoints["http"].as_str().expect("an address"));
    service::runtime::install_crypto();
    let client = reqwest::Client::new();
    wait_for(LIMIT, "a ready watchdog", async || {
        client.get(&ready).send().await.ok().filter(|answer| answer.status().is_success()).map(drop)
    })
    .await;
    child
}

async fn revision(cell: &Cell) -> i64 {
    cell.number("SELECT revision FROM fence WHERE role = 'watchdog'").await
}

#[tokio::test]
async fn the_leader_is_killed_and_the_other_goes_on_where_it_was() {
    let folder = TempFolder::create("watchdogs").expect("a folder");
    let receiver = Receiver::start(&[]).await;
    let cell = Cell::create().await;
    store::clock::shift(&cell.store, 0).await.expect("the real time");
    rows!(cell, "SELECT esc_make_partitions(current_date - 1, current_date + 1)");
    cell.channel("oncall", &receiver.url, None).await;

    let mut leader = start(&cell, folder.path(), "one").await;
    let first = wait_for(LIMIT, "a leader", async || Some(revision(&cell).await).filter(|at| *at > 0)).await;
    let mut standby = start(&cell, folder.path(), "two").await;
    let job = cell.job("ticks", &definition("* * * * * *", 1)).await;
    assert_eq!(receiver.wait_for(1).await[0].event(), "alert.opened");
    assert_eq!(revision(&cell).await, first, "the stand-by does not lead");

    leader.kill().expect("killed");
    wait_for(LIMIT, "the other to lead", async || (revision(&cell).await > first).then_some(())).await;
    let judged = cell.number("SELECT count(*) FROM verdict").await;
    wait_for(LIMIT, "judging to go on", async || {
        (cell.number("SELECT count(*) FROM verdict").await > judged).then_some(())
    })
    .await;
    let gaps =
        "SELECT extract(epoch FROM max(occurrence) - min(occurrence))::bigint + 1 - count(*) FROM verdict";
    assert_eq!(cell.number(gaps).await, 0, "each second is judged, none twice");

    rows!(
        cell,
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, finished_at, generation, term, token, attempt, origin, \
                          state) \
         SELECT $1, '00000000-0000-4000-8000-000000000001', t, t, t, 1, 1, 1, 1, 'SCHEDULE', 'SUCCEEDED' \
         FROM generate_series(date_trunc('second', esc_now()), esc_now() + interval '1 minute', interval '1 second') AS t",
        job.0
    );
    let told = receiver.wait_for(2).await;
    assert_eq!(told[1].event(), "alert.resolved");
    assert_eq!(told.len(), 2, "{told:?}");
    let exit = standby.terminate(Duration::from_secs(10)).await.expect("it ends");
    assert!(exit.success(), "{exit}: {}", standby.log_tail());
    assert!(!standby.log_tail().contains("panicked"), "{}", standby.log_tail());
}
