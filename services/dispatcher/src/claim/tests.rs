use super::*;
use crate::testing::cell::Cell;
use crate::testing::idle::{Idle, was_told};
use model::ids::JobId;
use rpc::v1::to_worker::Message;
use store::clock;

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn the_loop_sleeps_until_the_next_row_is_due_and_never_longer_than_a_second() {
    let due = |overdue, wait: Option<u64>| Due { overdue, wait: wait.map(Duration::from_millis) };
    let (free, full) = (Rest::default(), Rest { full: true, ..Rest::default() });
    assert_eq!(sleep_until(due(false, Some(40)), free), Sleep::For(Duration::from_millis(40)));
    assert_eq!(sleep_until(due(false, Some(60_000)), free), Sleep::For(SLEEP_MAX));
    assert_eq!(sleep_until(due(false, None), full), Sleep::For(SLEEP_MAX));
    assert_eq!(sleep_until(due(true, Some(900)), free), Sleep::For(SLEEP_OVERDUE));
    assert_eq!(sleep_until(due(true, Some(20)), full), Sleep::ForSlot(Duration::from_millis(20)));
}

#[test]
fn claims_begin_small_and_grow_to_the_limit_while_they_take_all_they_may() {
    let batches = std::iter::successors(Some(first_batch(2_000)), |batch| Some(next_batch(*batch, 2_000)));
    assert_eq!(batches.take(4).collect::<Vec<_>>(), [256, 1_024, 2_000, 2_000]);
    assert_eq!((first_batch(100), next_batch(100, 100)), (100, 100));
}

#[test]
fn what_a_limit_holds_is_tried_again_when_a_run_ends_and_no_tenant_waits_for_its_turn() {
    let due = Due { overdue: true, wait: None };
    let held = Rest { held: true, ..Rest::default() };
    assert_eq!(sleep_until(due, held), Sleep::ForSlot(SLEEP_OVERDUE));
    assert_eq!(sleep_until(due, Rest { crowded: true, ..held }), Sleep::ForSlot(SLEEP_CROWDED));
}

/// How many runs workers have.
async fn in_hand(cell: &Cell) -> i64 {
    cell.count("SELECT count(*) FROM run_lease").await
}

#[tokio::test]
async fn nothing_is_claimed_before_the_epoch_fits_and_then_it_is_sent_at_once() {
    let idle = Idle::create().await;
    let mut worker = idle.worker().await;
    idle.cell.due(idle.cell.job(60_000).await, 1).await;
    let mut claimer = Claimer::new(&idle.shared);
    idle.shared.set_epoch_ready(false);
    assert_eq!(claimer.turn().await.expect("looked"), Sleep::For(SLEEP_MAX));
    assert_eq!(in_hand(&idle.cell).await, 0);
    idle.shared.set_epoch_ready(true);
    assert_eq!(claimer.turn().await.expect("claimed"), Sleep::For(Duration::ZERO));
    assert_eq!(in_hand(&idle.cell).await, 1);
    let sent = worker.received.try_recv().expect("a message").expect("no refusal");
    assert!(matches!(sent.message, Some(Message::Assignment(_))), "{sent:?}");
}

#[tokio::test]
async fn a_claim_that_meets_another_database_is_the_last_until_the_epoch_was_looked_at() {
    let idle = Idle::create().await;
    let _worker = idle.worker().await;
    idle.cell.due(idle.cell.job(60_000).await, 1).await;
    idle.cell.meddle("UPDATE epoch SET timeline = timeline - 1").await;
    Claimer::new(&idle.shared).turn().await.expect("refused");
    assert_eq!(in_hand(&idle.cell).await, 0);
    assert!(!idle.shared.epoch_ready());
    assert!(was_told(&idle.shared.identity).await);
}

#[tokio::test]
async fn nothing_is_claimed_by_a_clock_that_jumped_before_the_look_or_after_it() {
    let idle = Idle::create().await;
    let _worker = idle.worker().await;
    let store = &idle.cell.store;
    let mut claimer = Claimer::new(&idle.shared);
    // Due in half an hour, which the jump makes the past.
    idle.cell.due(idle.cell.job(60_000).await, -1_800).await;
    let before = clock::now(store).await.expect("a clock");
    clock::shift(store, i64::try_from(HOUR.as_millis()).expect("in range")).await.expect("shifted");
    let looked = Instant::now();
    assert!(idle.shared.steadiness.seen(before, looked, looked));
    claimer.turn().await.expect("the claim refuses, or the look that follows it");
    assert_eq!(in_hand(&idle.cell).await, 0);
    let (now, looked) = (clock::now(store).await.expect("a clock"), Instant::now());
    assert!(!idle.shared.steadiness.seen(now + HOUR, looked, looked), "whatever the next look says");
    claimer.eager = true;
    assert_eq!(claimer.turn().await.expect("looked"), Sleep::For(SLEEP_MAX));
    assert_eq!(in_hand(&idle.cell).await, 0);
}

/// Gives what waits of a job to a tenant of its own.
async fn to_another_tenant(cell: &Cell, JobId(job): JobId) -> TenantId {
    let other = TenantId(Uuid::new_v4());
    cell.meddle(&format!("INSERT INTO tenant (id, name) VALUES ('{other}', 'other')")).await;
    cell.meddle(&format!("UPDATE run_queue SET tenant_id = '{other}' WHERE job_id = '{job}'")).await;
    other
}

#[tokio::test]
async fn a_worker_of_one_tenant_gets_no_run_of_another() {
    let idle = Idle::create().await;
    let (own, strange) = (idle.cell.job(60_000).await, idle.cell.job(60_000).await);
    idle.cell.due(strange, 2).await;
    idle.cell.due(own, 1).await;
    let tenant = to_another_tenant(&idle.cell, own).await;
    let _worker = idle.worker_of(Some(tenant), "default").await;
    let mut claimer = Claimer::new(&idle.shared);
    claimer.turn().await.expect("claimed");
    let (JobId(own), JobId(strange)) = (own, strange);
    let of = |job| format!("SELECT count(*) FROM run_lease WHERE job_id = '{job}'");
    assert_eq!((idle.cell.count(&of(own)).await, idle.cell.count(&of(strange)).await), (1, 0));
}

#[tokio::test]
async fn tenants_take_turns_from_one_claim_to_the_next() {
    let idle = Idle::create().await;
    let jobs = [idle.cell.job(60_000).await, idle.cell.job(60_000).await];
    for ago in [3, 2] {
        for job in jobs {
            idle.cell.due(job, ago).await;
        }
    }
    // Each job's later run would wait for the earlier one.
    idle.cell.meddle("UPDATE run_queue SET exclusive = false").await;
    to_another_tenant(&idle.cell, jobs[1]).await;
    let mut claimer = Claimer::new(&idle.shared);
    for claims in 1..=2 {
        let _worker = idle.worker().await;
        claimer.turn().await.expect("claimed");
        assert_eq!(in_hand(&idle.cell).await, claims);
    }
    assert_eq!(idle.cell.count("SELECT count(DISTINCT tenant_id) FROM run_lease").await, 2);
}

#[tokio::test]
async fn what_is_long_due_in_a_queue_that_nobody_served_is_claimed_once_somebody_does() {
    let idle = Idle::create().await;
    let _worker = idle.worker().await;
    let mut claimer = Claimer::new(&idle.shared);
    claimer.turn().await.expect("looked");
    assert!(claimer.floor.is_some(), "nothing is due before, in its queue");
    idle.cell.due(idle.cell.job(60_000).await, 60).await;
    idle.cell.meddle("UPDATE run_queue SET queue = 'other'").await;
    let _other = idle.worker_of(None, "other").await;
    claimer.turn().await.expect("claimed");
    assert_eq!(in_hand(&idle.cell).await, 1);
}
