//! A watchdog whose leadership the fence refuses, as after a rebuild of etcd: not ready, patient, and ready after a reset.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd};
use stack::wait::wait_for;
use std::path::Path;
use std::time::Duration;
use store::fence::{self, Role};
use support::{Cell, rows};

const LIMIT: Duration = Duration::from_secs(30);

/// Starts a watchdog; returns where it says whether it is ready.
async fn start(cell: &Cell, folder: &Path, name: &str) -> (ManagedChild, String) {
    let endpoints = folder.join(format!("{name}.json"));
    let spec = Spec::new(name, env!("CARGO_BIN_EXE_escapement-watchdog"), folder.join(format!("{name}.log")))
        .clear_env()
        .arg(format!("--endpoints-file={}", endpoints.display()))
        .env("ESCAPEMENT_NAME", name)
        .env("ESCAPEMENT_DATABASE_URL", &cell.url)
        .env("ESCAPEMENT_ETCD_ENDPOINTS", shared_etcd().await.endpoints().join(","));
    let child = ManagedChild::spawn(&spec).expect("spawned");
    let published = async || std::fs::read(&endpoints).ok();
    let text = wait_for(LIMIT, "a watchdog's endpoints", published).await;
    let endpoints: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    (child, format!("{}/readyz", endpoints["http"].as_str().expect("an address")))
}

#[tokio::test]
async fn a_rebuilt_etcd_makes_it_not_ready_until_the_fence_is_reset() {
    let folder = TempFolder::create("fenced").expect("a folder");
    let cell = Cell::create().await;
    store::clock::shift(&cell.store, 0).await.expect("the real time");
    rows!(
        cell,
        "UPDATE fence SET revision = 1000000000, holder = gen_random_uuid() WHERE role = 'watchdog' RETURNING role"
    );
    let (mut one, one_ready) = start(&cell, folder.path(), "one").await;
    let (mut two, two_ready) = start(&cell, folder.path(), "two").await;
    service::runtime::install_crypto();
    let client = reqwest::Client::new();
    let answer = async |url: &str| {
        let answer = client.get(url).send().await.ok()?;
        let status = answer.status().as_u16();
        Some((status, answer.text().await.ok()?))
    };
    for url in [&one_ready, &two_ready] {
        wait_for(LIMIT, "the refusal to be said", async || {
            let (status, text) = answer(url).await?;
            (status == 503 && text.contains("run `escapement fence reset watchdog --yes`")).then_some(())
        })
        .await;
    }
    assert_eq!(revision(&cell).await, 1_000_000_000, "nobody leads");

    fence::reset(&cell.store, Role::Watchdog).await.expect("reset");
    wait_for(LIMIT, "a leader", async || (revision(&cell).await > 0).then_some(())).await;
    for url in [&one_ready, &two_ready] {
        wait_for(LIMIT, "readiness, of the stand-by too", async || {
            (answer(url).await?.0 == 200).then_some(())
        })
        .await;
    }
    for watchdog in [&mut one, &mut two] {
        let exit = watchdog.terminate(Duration::from_secs(10)).await.expect("it ends");
        assert!(exit.success(), "{exit}: {}", watchdog.log_tail());
    }
}

async fn revision(cell: &Cell) -> i64 {
    cell.number("SELECT revision FROM fence WHERE role = 'watchdog'").await
}
