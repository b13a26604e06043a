//! Running processes are listed, gone ones are not, and a lost registration is renewed.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use election::{Client, Member, Role, members, register};
use stack::testkit::shared_etcd;
use stack::wait::wait_for;
use support::{Hand, LIMIT, config, own_etcd};
use uuid::Uuid;

fn member(name: &str) -> Member {
    Member {
        role: Role::Dispatcher,
        name: name.into(),
        uuid: Uuid::new_v4(),
        pid: 7,
        http: "http://127.0.0.1:9".into(),
        database: None,
        slots: None,
        tzdata: None,
    }
}

async fn listed(client: &Client, expected: &[&Member]) {
    wait_for(LIMIT, "the expected members", async || {
        let found = members(client, Role::Dispatcher).await.ok()?;
        found.iter().eq(expected.iter().copied()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn members_come_and_go() {
    let client = Client::connect(&config(shared_etcd().await.endpoints())).await.unwrap();
    let (a, b) = (member("a"), member("b"));
    let second = register(&client, &b).unwrap();
    let first = register(&client, &a).unwrap();
    listed(&client, &[&a, &b]).await;
    assert_eq!(members(&client, Role::Ticker).await.unwrap(), []);
    first.leave().await;
    assert_eq!(members(&client, Role::Dispatcher).await.unwrap(), [b]);
    drop(second);
    listed(&client, &[]).await;
}

#[tokio::test]
async fn a_lost_registration_is_renewed() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let member = member("a");
    let _handle = register(&client, &member).unwrap();
    listed(&client, &[&member]).await;
    let mut hand = Hand::reach(&config).await;
    let (_, lease) = hand.keys("members/").await.remove(0);
    hand.etcd.lease_revoke(lease).await.unwrap();
    assert_eq!(members(&client, Role::Dispatcher).await.unwrap(), []);
    listed(&client, &[&member]).await;
}

#[tokio::test]
async fn a_member_shows_what_changed_and_knows_since_when_it_is_listed() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    let first = member("a");
    let handle = register(&client, &first).unwrap();
    let registration = handle.registration();
    listed(&client, &[&first]).await;
    let since = wait_for(LIMIT, "a registration", async || registration.since()).await;
    let changed = Member { database: Some(false), slots: Some(16), ..first };
    handle.show(&changed).unwrap();
    listed(&client, &[&changed]).await;
    assert_eq!(registration.since(), Some(since), "a new value is no new registration");
    let mut hand = Hand::reach(&config).await;
    let (_, lease) = hand.keys("members/").await.remove(0);
    hand.etcd.lease_revoke(lease).await.unwrap();
    let again = async || registration.since().filter(|again| *again > since);
    wait_for(LIMIT, "a registration that begins anew", again).await;
    listed(&client, &[&changed]).await;
}

#[tokio::test]
async fn a_process_registers_once_etcd_is_back() {
    let (mut etcd, _folder) = own_etcd().await;
    let client = Client::connect(&config(etcd.endpoints())).await.unwrap();
    etcd.stop().await.unwrap();
    let member = member("a");
    let handle = register(&client, &member).unwrap();
    assert!(members(&client, Role::Dispatcher).await.unwrap_err().is_doubt());
    etcd.start_again().await.unwrap();
    listed(&client, &[&member]).await;
    etcd.stop().await.unwrap();
    tokio::time::timeout(LIMIT, handle.leave()).await.expect("leaving doesn't wait for etcd");
}

#[tokio::test]
async fn what_somebody_else_wrote_is_left_out() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    Hand::reach(&config).await.put("members/dispatcher/x", "no member").await;
    assert_eq!(members(&client, Role::Dispatcher).await.unwrap(), []);
}
