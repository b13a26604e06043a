//! Leadership, with real processes on etcd and PostgreSQL: one leads, hands over when asked, and is refused when it thaws.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::policy::{MisfirePolicy, OverlapPolicy};
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use store::fence::{self, Role};
use support::place::Place;
use support::{Cell, LIMIT, each_second};

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
    let (_one, _two) = (place.start("one"), place.start("two"));
    for name in ["one", "two"] {
        let refused = async || {
            place.log(name).contains("escapement fence reset").then_some(())?;
            let ready = place.page(name, "/readyz").await;
            (ready.contains(" 503 ") && ready.contains("run `escapement fence reset ticker --yes`"))
                .then_some(())
        };
        wait_for(LIMIT, "the refusal, in log and readiness", refused).await;
    }
    assert_eq!(place.cell.count("SELECT count(*) FROM term").await, 0);
    fence::reset(&place.cell.store, Role::Ticker).await.expect("reset");
    place.leader_but("").await;
    for name in ["one", "two"] {
        let ready = async || place.page(name, "/readyz").await.contains(" 200 ").then_some(());
        wait_for(LIMIT, "readiness, of the stand-by too", ready).await;
    }
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
