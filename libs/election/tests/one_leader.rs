//! Of any number of candidates one leads, and the next follows when it ends.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use election::{Client, Role, leader};
use stack::testkit::shared_etcd;
use stack::wait::wait_for;
use support::{Hand, LIMIT, TTL, config, elect, elected, own_etcd, stand};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn of_two_candidates_exactly_one_leads() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    Hand::reach(&config).await.candidates(2).await;
    assert!(first.confirm().await.unwrap());
    assert!(!second.is_finished());
    let seen = leader(&client, Role::Ticker).await.unwrap().unwrap();
    assert_eq!((seen.revision, seen.candidate.uuid), (first.revision(), first.uuid()));
    assert_eq!(leader(&client, Role::Watchdog).await.unwrap(), None, "roles don't mix");
}

#[tokio::test]
async fn a_resignation_hands_over_within_a_second() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    Hand::reach(&config).await.candidates(2).await;
    let (revision, validity, began) = (first.revision(), first.validity().clone(), Instant::now());
    first.resign().await.unwrap();
    let second = elected(second).await;
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    assert!(second.revision() > revision, "terms rise");
    assert_eq!(validity.valid_for(), None, "nobody acts on a term that was given up");
}

/// The leader's process ends without a word: its lease is neither renewed nor revoked.
#[test]
fn a_crashed_leader_is_replaced_once_its_lease_ran_out_and_not_before() {
    let crashing = tokio::runtime::Runtime::new().unwrap();
    let surviving = tokio::runtime::Runtime::new().unwrap();
    let config = config(surviving.block_on(shared_etcd()).endpoints());
    let first = crashing.block_on(async { elect(&Client::connect(&config).await.unwrap(), "first").await });
    surviving.block_on(async {
        let client = Client::connect(&config).await.unwrap();
        let second = stand(&client, "second", &CancellationToken::new());
        Hand::reach(&config).await.candidates(2).await;
        let crashed = Instant::now();
        crashing.shutdown_background();
        let second = elected(second).await;
        assert_eq!(first.valid_for(), None, "two leaders at once");
        assert!(crashed.elapsed() < TTL + Duration::from_secs(3), "{:?}", crashed.elapsed());
        assert!(second.revision() > first.revision());
        assert!(second.confirm().await.unwrap());
        assert!(!first.confirm().await.is_ok_and(|ours| ours));
    });
}

/// Each candidate watches the one before it: an end wakes one, not all.
#[tokio::test]
async fn of_five_candidates_a_resignation_wakes_only_the_next() {
    let (etcd, _folder) = own_etcd().await;
    let config = config(etcd.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let mut hand = Hand::reach(&config).await;
    let leading = elect(&client, "c0").await;
    let began = Instant::now();
    let mut waiting = Vec::new();
    for number in 1..5 {
        waiting.push(stand(&client, &format!("c{number}"), &CancellationToken::new()));
        hand.candidates(number + 1).await;
    }
    wait_for(LIMIT, "four watchers", async || {
        (metric(&etcd.endpoints()[0], "etcd_debugging_mvcc_watcher_total") == 4.0).then_some(())
    })
    .await;
    let transactions = r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Txn","#;
    let before = metric(&etcd.endpoints()[0], transactions);
    leading.resign().await.unwrap();
    let next = elected(waiting.remove(0)).await;
    wait_for(LIMIT, "three watchers", async || {
        (metric(&etcd.endpoints()[0], "etcd_debugging_mvcc_watcher_total") == 3.0).then_some(())
    })
    .await;
    let asked = metric(&etcd.endpoints()[0], transactions) - before;
    assert!(began.elapsed() < TTL, "too slow to tell a wake from the regular second look");
    assert_eq!(asked, 2.0, "one to resign, one by the candidate that woke");
    assert!(next.confirm().await.unwrap());
    assert!(waiting.iter().all(|campaign| !campaign.is_finished()));
}

/// The value of the first metric that begins with `name`.
fn metric(endpoint: &str, name: &str) -> f64 {
    let mut stream = TcpStream::connect(endpoint.trim_start_matches("http://")).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let line = page.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no metric {name}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_shutdown_withdraws_the_candidacy() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let _first = elect(&client, "first").await;
    let shutdown = CancellationToken::new();
    let second = stand(&client, "second", &shutdown);
    let mut hand = Hand::reach(&config).await;
    hand.candidates(2).await;
    shutdown.cancel();
    assert!(second.await.unwrap().unwrap().is_none());
    assert_eq!(hand.keys("election/").await.len(), 1);
}

#[tokio::test]
async fn a_dropped_campaign_takes_its_key_along() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let _first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    let mut hand = Hand::reach(&config).await;
    hand.candidates(2).await;
    let dropped = Instant::now();
    second.abort();
    hand.candidates(1).await;
    assert!(dropped.elapsed() < TTL / 2, "given back, not expired");
}
