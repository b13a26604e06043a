use super::*;
use crate::testing::cell::LIMIT;
use crate::testing::idle::{Idle, was_told};
use model::run::Reason;
use store::run_cancel::{self, Cancelled};

const LEASED: &str = "SELECT count(*) FROM run_lease WHERE session_id IS NOT NULL";
const OPEN: &str = "SELECT count(*) FROM worker_session WHERE ended_at IS NULL";

#[tokio::test]
async fn what_was_decided_too_long_ago_gives_nobody_on() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    idle.in_hand(&worker).await;
    let old = Some(DECISION_AGE_MAX + Duration::from_millis(1));
    let reaped = reap(&idle.shared, &[idle.seen(&worker)], &idle.leave(old)).await.expect("looked");
    assert_eq!(reaped, 0);
    assert_eq!((idle.cell.count(LEASED).await, idle.cell.count(OPEN).await), (1, 1));
    assert_eq!(idle.shared.roster().count(), 1, "it may live");
}

/// Its worker resumed after the look, here or elsewhere.
#[tokio::test]
async fn a_session_that_has_moved_on_since_the_look_keeps_its_runs() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    idle.in_hand(&worker).await;
    idle.cell.meddle("UPDATE worker_session SET connection = 2").await;
    let reaped = reap(&idle.shared, &[idle.seen(&worker)], &idle.leave(None)).await.expect("looked");
    assert_eq!(reaped, 0);
    assert_eq!((idle.cell.count(LEASED).await, idle.cell.count(OPEN).await), (1, 1));
}

#[tokio::test]
async fn the_runs_of_a_dead_worker_may_be_claimed_at_once_and_its_connection_is_closed() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    idle.in_hand(&worker).await;
    was_told(&idle.shared.work).await;
    let reaped = reap(&idle.shared, &[idle.seen(&worker)], &idle.leave(None)).await.expect("reaped");
    assert_eq!((reaped, idle.cell.count(OPEN).await), (1, 0));
    let lost = "SELECT count(*) FROM run_queue WHERE lost = 1 AND undelivered = 0";
    assert_eq!(idle.cell.count(lost).await, 1);
    assert!(was_told(&idle.shared.work).await, "they are due");
    assert_eq!(idle.shared.roster().count(), 0);
    tokio::time::timeout(LIMIT, worker.link.closed()).await.expect("closed");
}

#[tokio::test]
async fn what_a_leaving_worker_has_not_is_undelivered_and_not_lost() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    idle.in_hand(&worker).await;
    leave(&idle.shared, idle.seen(&worker)).await.expect("left");
    let undelivered = "SELECT count(*) FROM run_queue WHERE undelivered = 1 AND lost = 0";
    assert_eq!(idle.cell.count(undelivered).await, 1);
}

#[tokio::test]
async fn a_run_that_was_to_be_cancelled_ends_with_its_dead_worker() {
    let idle = Idle::create().await;
    let worker = idle.worker().await;
    let key = idle.in_hand(&worker).await.key;
    let mut client = idle.cell.store.client("cancel a run").await.expect("connected");
    let tx = client.begin("cancel a run").await.expect("begun");
    let cancelled = run_cancel::cancel(&tx, key, Reason::Requested).await.expect("asked");
    assert_eq!(cancelled, Cancelled::Requested);
    tx.commit().await.expect("committed");
    reap(&idle.shared, &[idle.seen(&worker)], &idle.leave(None)).await.expect("reaped");
    assert_eq!(idle.cell.end(key).await, "CANCELLED(REQUESTED)");
}
