use super::*;
use crate::testing::idle::Idle;
use store::epoch::{Identity, Incarnation, Stored};

const HERE: Identity = Identity { system_identifier: 72, timeline: 1 };
const PROMOTED: Identity = Identity { system_identifier: 72, timeline: 2 };

fn incarnation() -> Incarnation {
    Incarnation { started_at: chrono::DateTime::UNIX_EPOCH, sequence: 16_400 }
}

fn empty() -> Epoch {
    Epoch { server: HERE, incarnation: incarnation(), stored: None, sequence: 0 }
}

fn database(epoch: i32, made_for: Identity, server: Identity, sequence: i64) -> Epoch {
    let stored = Stored { epoch, made_for, compared: Some(incarnation()) };
    Epoch { server, stored: Some(stored), sequence, ..empty() }
}

fn mark(epoch: u32, timeline: u32, sequence: i64) -> Mark {
    let highest_token = first_of(epoch) + sequence;
    Mark { system_identifier: "72".to_owned(), timeline, epoch, highest_token }
}

#[test]
fn an_empty_cell_begins_with_epoch_1() {
    assert_eq!(decide(None, &empty()), Decision::Raise(1));
}

#[test]
fn database_and_mark_that_agree_are_kept() {
    assert_eq!(decide(Some(&mark(3, 1, 10)), &database(3, HERE, HERE, 10)), Decision::Keep);
    assert_eq!(decide(Some(&mark(3, 1, 10)), &database(3, HERE, HERE, 900)), Decision::Keep);
}

#[test]
fn a_server_that_was_only_started_anew_keeps_its_epoch() {
    let mut restarted = database(3, HERE, HERE, 10);
    restarted.incarnation.started_at += chrono::TimeDelta::seconds(1);
    assert!(!restarted.is_in_use(), "until it is compared");
    assert_eq!(decide(Some(&mark(3, 1, 10)), &restarted), Decision::Keep);
}

#[test]
fn whatever_may_have_lost_tokens_gets_a_higher_epoch_than_both_know() {
    let restored_in_place = database(3, HERE, HERE, 9);
    assert_eq!(decide(Some(&mark(3, 1, 10)), &restored_in_place), Decision::Raise(4));
    let mut restored_with_as_many = database(3, HERE, HERE, 900);
    restored_with_as_many.incarnation.sequence += 1;
    assert_eq!(decide(Some(&mark(3, 1, 10)), &restored_with_as_many), Decision::Raise(4));
    let promoted = database(3, HERE, PROMOTED, 10);
    assert_eq!(decide(Some(&mark(3, 1, 10)), &promoted), Decision::Raise(4));
    let older_dump = database(2, HERE, HERE, 10);
    assert_eq!(decide(Some(&mark(5, 1, 10)), &older_dump), Decision::Raise(6));
    let etcd_rebuilt = database(5, HERE, HERE, 10);
    assert_eq!(decide(None, &etcd_rebuilt), Decision::Raise(6));
    assert_eq!(decide(Some(&mark(1, 1, 0)), &etcd_rebuilt), Decision::Raise(6));
}

#[test]
fn an_epoch_that_was_made_for_another_server_is_not_kept_though_the_mark_names_this_one() {
    let promoted = database(3, HERE, PROMOTED, 10);
    assert_eq!(decide(Some(&mark(3, 2, 10)), &promoted), Decision::Raise(4));
    let copied = Epoch { server: Identity { system_identifier: 73, ..HERE }, ..database(3, HERE, HERE, 10) };
    let of_the_copy = Mark { system_identifier: "73".to_owned(), ..mark(3, 1, 10) };
    assert_eq!(decide(Some(&of_the_copy), &copied), Decision::Raise(4));
}

#[test]
fn the_mark_of_another_timeline_proves_nothing() {
    assert_eq!(decide(Some(&mark(3, 2, 10)), &database(3, HERE, HERE, 10)), Decision::Raise(4));
}

#[test]
fn an_announcement_of_somebody_else_is_waited_for() {
    assert_eq!(decide(Some(&mark(1, 1, 0)), &empty()), Decision::Announced);
}

#[test]
fn the_mark_of_another_database_proves_nothing_though_its_timeline_is_the_same() {
    let database = database(3, HERE, HERE, 10);
    let foreign = |mark| Mark { system_identifier: "73".to_owned(), ..mark };
    assert_eq!(decide(Some(&foreign(mark(3, 1, 10))), &database), Decision::Raise(4));
    let announced = foreign(mark(4, 1, 0));
    assert_eq!(decide(Some(&announced), &database), Decision::Raise(5), "nobody stores it here");
}

/// The mark as it stands.
async fn noted(etcd: &election::Client) -> Mark {
    mark::read(etcd).await.expect("read").expect("marked").0
}

#[tokio::test]
async fn the_mark_follows_the_tokens_that_are_handed_out() {
    let idle = Idle::create().await;
    let etcd = idle.cell.etcd().await;
    ensure(&idle.shared, &etcd).await.expect("an epoch");
    assert_eq!(noted(&etcd).await.highest_token, first_of(2), "etcd knew nothing of the first");
    let token = idle.in_hand(&idle.worker().await).await.token;
    ensure(&idle.shared, &etcd).await.expect("the same");
    assert_eq!(noted(&etcd).await.highest_token, token.as_i64());
}

#[tokio::test]
async fn a_server_that_was_started_anew_is_claimed_from_once_it_is_compared() {
    let idle = Idle::create().await;
    let etcd = idle.cell.etcd().await;
    ensure(&idle.shared, &etcd).await.expect("an epoch");
    idle.cell.meddle("UPDATE epoch SET compared_start = compared_start - interval '1 second'").await;
    assert!(!epoch::read(&idle.cell.store).await.expect("read").is_in_use());
    idle.shared.set_epoch_ready(false);
    ensure(&idle.shared, &etcd).await.expect("the same");
    let compared = epoch::read(&idle.cell.store).await.expect("read");
    assert!(compared.is_in_use() && idle.shared.epoch_ready());
    assert_eq!(compared.stored.map(|stored| stored.epoch), Some(2), "no new one");
}

#[tokio::test]
async fn there_is_no_epoch_after_the_last_one() {
    let idle = Idle::create().await;
    let etcd = idle.cell.etcd().await;
    let last = mark(EPOCH_MAX, 1, 1);
    assert!(mark::write_if(&etcd, None, &last).await.expect("marked"));
    assert!(matches!(ensure(&idle.shared, &etcd).await, Err(EpochError::Exhausted)));
    assert_eq!(noted(&etcd).await, last);
}
