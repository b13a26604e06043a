//! The mark is replaced by compare-and-set, so that two that decide at once don't both prevail.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use election::{Client, ElectionError, Mark, mark};
use stack::testkit::shared_etcd;
use support::{Hand, config};

fn epoch(epoch: u32) -> Mark {
    Mark {
        system_identifier: "7300000000000000001".into(),
        timeline: 1,
        epoch,
        highest_token: i64::from(epoch) << 44,
    }
}

#[tokio::test]
async fn a_mark_is_written_once_and_changed_only_by_who_knows_it() {
    let client = Client::connect(&config(shared_etcd().await.endpoints())).await.unwrap();
    assert_eq!(mark::read(&client).await.unwrap(), None);
    assert!(mark::write_if(&client, None, &epoch(1)).await.unwrap());
    assert!(!mark::write_if(&client, None, &epoch(2)).await.unwrap(), "there is one already");
    let (first, revision) = mark::read(&client).await.unwrap().unwrap();
    assert_eq!(first, epoch(1));
    assert!(mark::write_if(&client, Some(revision), &epoch(2)).await.unwrap());
    assert!(!mark::write_if(&client, Some(revision), &epoch(3)).await.unwrap(), "it has changed since");
    let (second, later) = mark::read(&client).await.unwrap().unwrap();
    assert_eq!(second, epoch(2));
    assert!(later > revision);
}

#[tokio::test]
async fn of_eight_writers_that_read_the_same_one_prevails() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    assert!(mark::write_if(&client, None, &epoch(1)).await.unwrap());
    let (_, revision) = mark::read(&client).await.unwrap().unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for number in 2..10 {
        let client = Client::connect(&config).await.unwrap();
        writers.spawn(async move {
            let won = mark::write_if(&client, Some(revision), &epoch(number)).await.unwrap();
            won.then_some(number)
        });
    }
    let winners: Vec<u32> = writers.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1, "{winners:?}");
    assert_eq!(mark::read(&client).await.unwrap().unwrap().0, epoch(winners[0]));
}

/// An unreadable mark may hide a high token: nothing may be decided without it.
#[tokio::test]
async fn an_unreadable_mark_is_an_error_and_not_an_absence() {
    let config = config(shared_etcd().await.endpoints());
    let client = Client::connect(&config).await.unwrap();
    Hand::reach(&config).await.put("epoch", "{}").await;
    assert!(matches!(mark::read(&client).await, Err(ElectionError::Corrupt { .. })));
}
