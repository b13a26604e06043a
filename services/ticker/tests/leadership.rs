//! Leadership, with real processes on etcd and PostgreSQL: one leads, hands over when asked, and is refused when it thaws.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::policy::{MisfirePolicy, OverlapPolicy};
use stack::etcd::Etcd;
use stack::process::{ManagedChild, Spec};
use stack::testkit::{TempFolder, shared_etcd};
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use store::fence::{self, Role};
use support::{Cell, LIMIT, each_second};

/// A cell with its own place in etcd, and a folder for logs.
struct Place {
    cell: Cell,
    etcd: &'static Etcd,
    folder: TempFolder,
}

impl Place {
    async fn create() -> Self {
        let cell = Cell::create_unique().await;
        let folder = TempFolder::create("ticker").expect("a folder");
        Self { cell, etcd: shared_etcd().await, folder }
    }

    fn start(&self, name: &str) -> ManagedChild {
        self.start_with(name, self.cell.url())
    }

    fn start_with(&self, name: &str, database: &str) -> ManagedChild {
        let log = self.folder.path().join(format!("{name}.log"));
        let spec = Spec::new(name, env!("CARGO_BIN_EXE_escapement-ticker"), log)
            .clear_env()
            .arg("--endpoints-file")
            .arg(self.folder.path().join(format!("{name}.json")))
            .env("ESCAPEMENT_NAME", name)
            .env("ESCAPEMENT_CELL", &self.cell.store.settings().cell)
            .env("ESCAPEMENT_DATABASE_URL", database)
            .env("ESCAPEMENT_ETCD_ENDPOINTS", self.etcd.endpoints().join(","))
            .env("ESCAPEMENT_WRITE_SILENCE_MAX_MS", "2000")
            .env("ESCAPEMENT_CLOCK_JUMP_GUARD_MS", "0");
        ManagedChild::spawn(&spec).expect("started")
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(format!("{name}.log"))).unwrap_or_default()
    }

    /// The leader's name and revision, once it has finished a cycle and is not `other`.
    async fn leader_but(&self, other: &str) -> (String, i64) {
        let statement =
            "SELECT name || ' ' || revision FROM term WHERE ended_at IS NULL AND last_cycle_at IS NOT NULL";
        wait_for(LIMIT, "a leader that works", async || {
            let found = self.cell.texts(statement).await;
            let (name, revision) = found.split_once(' ')?;
            (name != other).then(|| (name.to_owned(), revision.parse().expect("a revision")))
        })
        .await
    }

    async fn ended(&self, revision: i64) -> String {
        self.cell
            .texts(&format!("SELECT coalesce(ended_how, '') FROM term WHERE revision = {revision}"))
            .await
    }

    /// What a process tells about itself.
    async fn metrics(&self, name: &str) -> String {
        let text = std::fs::read(self.folder.path().join(format!("{name}.json"))).expect("its endpoints");
        let endpoints: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
        let address =
            endpoints["http"].as_str().expect("an address").trim_start_matches("http://").to_owned();
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("connected");
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let request = b"GET /metrics HTTP/1.1\r\nHost: ticker\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await.expect("asked");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("answered");
        text
    }
}

/// A way to the database that can be cut.
struct Way {
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Way {
    async fn to(cell: &Cell) -> Self {
        let (before, rest) = cell.url().rsplit_once('@').expect("a user");
        let (address, database) = rest.split_once('/').expect("a database");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let port = listener.local_addr().expect("an address").port();
        let url = format!("{before}@127.0.0.1:{port}/{database}");
        let address = address.to_owned();
        let task = tokio::spawn(async move {
            // Whoever is under way ends with this task.
            let mut under_way = tokio::task::JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                let Ok(mut far) = tokio::net::TcpStream::connect(&address).await else { continue };
                under_way
                    .spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await.map(drop) });
            }
        });
        Self { url, task }
    }

    fn cut(self) {
        self.task.abort();
    }
}

#[tokio::test]
async fn a_leader_that_cant_write_lets_another_try() {
    let place = Place::create().await;
    let way = Way::to(&place.cell).await;
    let _one = place.start_with("one", &way.url);
    let (_, revision) = place.leader_but("").await;
    let _two = place.start("two");
    wait_for(LIMIT, "the stand-by", async || place.folder.path().join("two.json").exists().then_some(()))
        .await;
    way.cut();
    let (name, higher) = place.leader_but("one").await;
    assert_eq!(name, "two");
    assert!(higher > revision);
    assert!(place.log("one").contains("Mute"), "it gave way by itself");
}

#[tokio::test]
async fn one_leads_and_hands_over_when_it_is_stopped() {
    let place = Place::create().await;
    let mut one = place.start("one");
    let (name, revision) = place.leader_but("").await;
    assert_eq!(name, "one");
    let _two = place.start("two");
    wait_for(LIMIT, "the stand-by", async || place.folder.path().join("two.json").exists().then_some(()))
        .await;
    let job = place.cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let planned = format!("SELECT count(*) FROM run WHERE job_id = '{job}'");
    wait_for(LIMIT, "planned runs", async || (place.cell.count(&planned).await >= 119).then_some(())).await;

    let asked = Instant::now();
    let status = one.terminate(LIMIT).await.expect("ended");
    assert!(status.success(), "{status} {}", place.log("one"));
    let (name, higher) = place.leader_but("one").await;
    assert_eq!(name, "two");
    assert!(higher > revision);
    assert!(asked.elapsed() < Duration::from_secs(4), "without waiting for a lease: {:?}", asked.elapsed());
    assert_eq!(place.ended(revision).await, "RESIGNED");
    let gap = format!(
        "SELECT count(*) FROM term WHERE revision = {higher} AND predecessor = {revision} AND gap_ms BETWEEN 0 AND 4000"
    );
    assert_eq!(place.cell.count(&gap).await, 1);
}

#[tokio::test]
async fn a_killed_leader_is_followed_when_its_lease_is_over() {
    let place = Place::create().await;
    let mut one = place.start("one");
    let (_, revision) = place.leader_but("").await;
    let _two = place.start("two");
    wait_for(LIMIT, "the stand-by", async || place.folder.path().join("two.json").exists().then_some(()))
        .await;
    let killed = Instant::now();
    one.kill().expect("killed");
    place.leader_but("one").await;
    assert!(killed.elapsed() < Duration::from_secs(15), "{:?}", killed.elapsed());
    assert_eq!(place.ended(revision).await, "LOST");
}

#[tokio::test]
async fn a_frozen_leader_that_thaws_learns_from_the_fence_that_it_is_deposed() {
    let place = Place::create().await;
    let one = place.start("one");
    let (_, revision) = place.leader_but("").await;
    let _two = place.start("two");
    wait_for(LIMIT, "the stand-by", async || place.folder.path().join("two.json").exists().then_some(()))
        .await;
    assert!(place.metrics("one").await.contains("escapement_fence_refusals_total"), "counted from the start");
    one.stop().expect("frozen");
    let (_, higher) = place.leader_but("one").await;
    assert!(higher > revision);
    one.cont().expect("thawed");
    wait_for(LIMIT, "the refusal in the log", async || {
        place.log("one").lines().any(|line| line.contains("fence.refused")).then_some(())
    })
    .await;
    wait_for(LIMIT, "the refusal in the metrics", async || {
        let metrics = place.metrics("one").await;
        let counted = metrics.lines().find(|line| line.starts_with("escapement_fence_refusals_total"))?;
        counted.ends_with(" 1").then_some(())
    })
    .await;
    wait_for(LIMIT, "the refusal in the term", async || {
        (place.ended(revision).await == "FENCED").then_some(())
    })
    .await;
    let foreign = format!("SELECT count(*) FROM term WHERE revision = {higher} AND ended_at IS NULL");
    assert_eq!(place.cell.count(&foreign).await, 1, "the successor leads on");
}

#[tokio::test]
async fn an_etcd_that_was_rebuilt_is_told_and_goes_on_after_a_reset() {
    let place = Place::create().await;
    place
        .cell
        .execute("UPDATE fence SET revision = 1000000000, holder = gen_random_uuid() WHERE role = 'ticker'")
        .await;
    let _one = place.start("one");
    wait_for(LIMIT, "the refusal", async || {
        place.log("one").contains("escapement fence reset").then_some(())
    })
    .await;
    assert_eq!(place.cell.count("SELECT count(*) FROM term").await, 0);
    fence::reset(&place.cell.store, Role::Ticker).await.expect("reset");
    place.leader_but("").await;
}

#[tokio::test]
async fn a_database_that_forgot_the_leadership_in_a_failover_is_told_again() {
    let place = Place::create().await;
    let _one = place.start("one");
    let (_, revision) = place.leader_but("").await;
    place
        .cell
        .execute("UPDATE fence SET revision = 0, holder = gen_random_uuid() WHERE role = 'ticker'")
        .await;
    let held = format!("SELECT count(*) FROM fence WHERE role = 'ticker' AND revision = {revision}");
    wait_for(LIMIT, "the fence raised again", async || (place.cell.count(&held).await == 1).then_some(()))
        .await;
    let job = place.cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let planned = format!("SELECT count(*) FROM run WHERE job_id = '{job}' AND term = {revision}");
    wait_for(LIMIT, "planned runs", async || (place.cell.count(&planned).await > 0).then_some(())).await;
}
