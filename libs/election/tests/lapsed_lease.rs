//! Nobody leads on a lease that lapsed: not the leader it belonged to, nor a candidate that was waiting.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::time::Duration;

use election::{Client, Role, leader};
use stack::testkit::shared_etcd;
use stack::wait::wait_for;
use support::{Hand, LIMIT, TTL, config, elect, elected, own_etcd, stand};
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn a_leader_without_etcd_stops_trusting_itself_and_never_starts_again() {
    let (etcd, _folder) = own_etcd().await;
    let client = Client::connect(&config(etcd.endpoints())).await.unwrap();
    let leadership = elect(&client, "leader").await;
    etcd.freeze().unwrap();
    tokio::time::timeout(TTL, leadership.lost()).await.expect("silence means lost, before the lease ends");
    assert_eq!(leadership.valid_for(), None);
    etcd.thaw().unwrap();
    wait_for(LIMIT, "etcd's answer that the key is gone", async || {
        assert_eq!(leadership.valid_for(), None, "revived");
        leadership.confirm().await.ok().filter(|ours| !ours)
    })
    .await;
    leadership.resign().await.expect("what is gone needs no revoking");
}

#[tokio::test]
async fn a_leader_outlives_a_silence_shorter_than_its_lease() {
    let (etcd, _folder) = own_etcd().await;
    let client = Client::connect(&config(etcd.endpoints())).await.unwrap();
    let leadership = elect(&client, "leader").await;
    etcd.freeze().unwrap();
    let most_is_gone = async || leadership.valid_for().filter(|left| *left < Duration::from_secs(2));
    wait_for(LIMIT, "most of the lease to pass", most_is_gone).await;
    etcd.thaw().unwrap();
    let renewed = async || leadership.valid_for().filter(|left| *left > Duration::from_secs(3));
    wait_for(LIMIT, "a renewal", renewed).await;
    assert!(leadership.confirm().await.unwrap());
}

#[tokio::test]
async fn a_revoked_lease_ends_the_leadership_at_the_next_renewal() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let leadership = elect(&client, "leader").await;
    let mut hand = Hand::reach(&config).await;
    let lease = hand.candidates(1).await[0];
    hand.etcd.lease_revoke(lease).await.unwrap();
    tokio::time::timeout(TTL / 2, leadership.lost()).await.expect("by the answer, not by the clock");
    assert!(!leadership.confirm().await.unwrap());
    leadership.resign().await.expect("what is gone needs no revoking");
}

#[tokio::test]
async fn a_key_deleted_by_hand_is_found_out_by_asking() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let leadership = elect(&client, "leader").await;
    let mut hand = Hand::reach(&config).await;
    let key = hand.keys("election/ticker/").await.remove(0).0;
    hand.etcd.delete(key, None).await.unwrap();
    assert!(!leadership.confirm().await.unwrap());
    assert_eq!(leadership.valid_for(), None);
}

/// With etcd's own election call this candidate comes back as a leader without a key.
#[tokio::test]
async fn a_candidate_whose_lease_lapsed_while_waiting_stands_again() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    let mut hand = Hand::reach(&config).await;
    let lapsed = hand.candidates(2).await[1];
    hand.etcd.lease_revoke(lapsed).await.unwrap();
    first.resign().await.unwrap();
    let second = elected(second).await;
    assert!(second.confirm().await.unwrap(), "a phantom leader");
    assert!(hand.candidates(1).await[0] != lapsed);
}

#[tokio::test]
async fn after_etcd_was_away_for_longer_than_every_lease_one_leads_with_a_key() {
    let (mut etcd, _folder) = own_etcd().await;
    let config = config(etcd.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    Hand::reach(&config).await.candidates(2).await;
    etcd.stop().await.unwrap();
    tokio::time::timeout(TTL, first.lost()).await.expect("lost without etcd");
    assert!(!second.is_finished());
    etcd.start_again().await.unwrap();
    let second = elected(second).await;
    assert!(second.confirm().await.unwrap());
    assert!(!first.confirm().await.unwrap());
    let seen = leader(&client, Role::Ticker).await.unwrap().unwrap();
    assert_eq!(seen.revision, second.revision());
}

#[tokio::test]
async fn a_restart_of_etcd_costs_nobody_the_leadership_nor_the_place() {
    let (mut etcd, _folder) = own_etcd().await;
    let config = config(etcd.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    let before = Hand::reach(&config).await.candidates(2).await;
    etcd.restart().await.unwrap();
    assert!(first.confirm().await.unwrap());
    assert_eq!(Hand::reach(&config).await.candidates(2).await, before);
    first.resign().await.unwrap();
    assert!(elected(second).await.confirm().await.unwrap());
}

#[tokio::test]
async fn a_compaction_under_a_watch_is_survived() {
    let (etcd, _folder) = own_etcd().await;
    let config = config(etcd.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = elect(&client, "first").await;
    let second = stand(&client, "second", &CancellationToken::new());
    let mut hand = Hand::reach(&config).await;
    hand.candidates(2).await;
    for _ in 0..20 {
        hand.put("noise", "x").await;
    }
    let revision = hand.etcd.get("x", None).await.unwrap().header().unwrap().revision();
    hand.etcd.compact(revision, None).await.unwrap();
    first.resign().await.unwrap();
    assert!(elected(second).await.confirm().await.unwrap());
}
