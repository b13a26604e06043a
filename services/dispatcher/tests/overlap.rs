//! Runs that wait for another one of their job or replace it, through real dispatchers and workers that say what the
//! test says.

mod support;

use model::policy::OverlapPolicy::{Queue, Replace};
use model::run::Reason;
use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::to_worker::Message;
use stack::wait::wait_for;
use std::time::{Duration, Instant};
use store::run_cancel::{self, Cancelled};
use support::{Cell, LIMIT, Worker, a_cancel, an_assignment, attempt};

const PARKED: &str = "SELECT count(*) FROM run_parked";

/// A worker's first assignment, with heartbeats meanwhile: on a busy machine it may take longer than a lease.
async fn first_run(worker: &mut Worker) -> rpc::v1::Assignment {
    worker.beat_until((0, &[]), "the first run", an_assignment).await
}

fn an_answer(message: Message) -> Option<Answer> {
    match message {
        Message::CompletionAck(ack) => Some(ack.answer()),
        _ => None,
    }
}

/// The dispatcher that parks tells its own worker at once; the failure that follows is the cancellation, and no retry.
#[tokio::test]
async fn a_worker_of_the_same_dispatcher_is_told_at_once() {
    let cell = Cell::create().await;
    let dispatcher = cell.incurious_dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let job = cell.job(60_000).await;
    let older = cell.due_with(job, 9, Replace).await;
    let (first, run) = attempt(&first_run(&mut worker).await);
    worker.accept(&run).await;
    let newer = cell.due_with(job, 3, Replace).await;
    let cancel = worker.beat_until((1, std::slice::from_ref(&run)), "a cancel", a_cancel).await;
    assert_eq!((cancel.run.as_ref(), cancel.reason.as_str()), (Some(&run), "REPLACED"));
    assert_eq!(cell.count(PARKED).await, 1);
    worker.complete(&run, Outcome::Failed).await;
    let (second, again) =
        attempt(&worker.beat_until((1, std::slice::from_ref(&run)), "the newer run", an_assignment).await);
    assert_eq!((second.key, second.attempt), (newer, 1));
    assert!(second.token > first.token);
    assert_eq!(cell.end(older).await, "CANCELLED(REPLACED)");
    worker.complete(&again, Outcome::Succeeded).await;
    cell.until_state(newer, "SUCCEEDED").await;
    assert_eq!(cell.count("SELECT count(*) FROM run_queue").await, 0, "nothing is tried again");
}

/// The worker of another dispatcher is told by its own, which looks each second.
#[tokio::test]
async fn a_worker_of_another_dispatcher_is_told_within_two_seconds() {
    let cell = Cell::create().await;
    let (one, two) = (cell.incurious_dispatcher("one").await, cell.incurious_dispatcher("two").await);
    let (mut holder, _) = one.worker(&cell, 1).await;
    let job = cell.job(60_000).await;
    cell.due_with(job, 9, Replace).await;
    let (_, run) = attempt(&first_run(&mut holder).await);
    holder.accept(&run).await;
    let (mut free, _) = two.worker(&cell, 1).await;
    let newer = cell.due_with(job, 3, Replace).await;
    let in_hand = std::slice::from_ref(&run);
    wait_for(LIMIT, "the parked run", async || {
        holder.heartbeat(1, in_hand).await;
        free.heartbeat(0, &[]).await;
        (cell.count(PARKED).await == 1).then_some(())
    })
    .await;
    let asked = Instant::now();
    let cancel = holder.beat_until((1, in_hand), "a cancel", a_cancel).await;
    assert_eq!(cancel.reason, "REPLACED");
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    holder.complete(&run, Outcome::Cancelled).await;
    let (second, _) = attempt(&free.beat_until((0, &[]), "the newer run", an_assignment).await);
    assert_eq!(second.key, newer);
}

/// It said that it was done before it heard that it is to stop: both can't be true, and success was first.
#[tokio::test]
async fn a_success_that_crosses_the_request_counts() {
    let cell = Cell::create().await;
    let dispatcher = cell.incurious_dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let job = cell.job(60_000).await;
    let older = cell.due_with(job, 9, Replace).await;
    let (_, run) = attempt(&first_run(&mut worker).await);
    worker.accept(&run).await;
    let newer = cell.due_with(job, 3, Replace).await;
    worker.beat_until((1, std::slice::from_ref(&run)), "a cancel", a_cancel).await;
    worker.complete(&run, Outcome::Succeeded).await;
    worker.complete(&run, Outcome::Cancelled).await;
    let (second, _) =
        attempt(&worker.beat_until((1, std::slice::from_ref(&run)), "the newer run", an_assignment).await);
    assert_eq!(second.key, newer);
    assert_eq!(cell.end(older).await, "SUCCEEDED");
}

/// A worker that neither stops nor says anything of it: after the grace the run is ended without its word.
#[tokio::test]
async fn a_worker_that_does_not_stop_loses_its_run_after_the_grace() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let job = cell.job(60_000).await;
    let older = cell.due_with(job, 9, Replace).await;
    let (first, run) = attempt(&first_run(&mut worker).await);
    worker.accept(&run).await;
    let newer = cell.due_with(job, 3, Replace).await;
    let in_hand = std::slice::from_ref(&run);
    let (second, _) = attempt(&worker.beat_until((1, in_hand), "the newer run", an_assignment).await);
    assert_eq!(second.key, newer);
    assert!(second.token > first.token);
    assert_eq!(cell.end(older).await, "CANCELLED(REPLACED)");
    worker.complete(&run, Outcome::Succeeded).await;
    let answer = worker.beat_until((1, in_hand), "an answer", an_answer).await;
    assert_eq!(answer, Answer::Stale, "what it says now changes nothing");
    assert_eq!(cell.end(older).await, "CANCELLED(REPLACED)");
}

/// A worker that dies instead of stopping: its run is cancelled and not tried again.
#[tokio::test]
async fn a_worker_that_dies_of_the_request_is_not_followed_by_a_retry() {
    let cell = Cell::create().await;
    let dispatcher = cell.incurious_dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let job = cell.job(60_000).await;
    let older = cell.due_with(job, 9, Replace).await;
    let (_, run) = attempt(&first_run(&mut worker).await);
    worker.accept(&run).await;
    let newer = cell.due_with(job, 3, Replace).await;
    worker.beat_until((1, std::slice::from_ref(&run)), "a cancel", a_cancel).await;
    drop(worker);
    cell.until_state(older, "CANCELLED").await;
    assert_eq!(cell.end(older).await, "CANCELLED(REPLACED)");
    let (mut next, _) = dispatcher.worker(&cell, 1).await;
    assert_eq!(attempt(&first_run(&mut next).await).0.key, newer);
}

/// A person cancels through a registry, which knows no worker.
#[tokio::test]
async fn a_request_from_elsewhere_reaches_the_worker() {
    let cell = Cell::create().await;
    let dispatcher = cell.incurious_dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due_with(cell.job(60_000).await, 9, Queue).await;
    let (_, run) = attempt(&first_run(&mut worker).await);
    worker.accept(&run).await;
    let mut client = cell.store.client("cancel").await.expect("connected");
    let tx = client.begin("cancel").await.expect("begun");
    let cancelled = run_cancel::cancel(&tx, key, Reason::Requested).await.expect("answered");
    tx.commit().await.expect("committed");
    assert_eq!(cancelled, Cancelled::Requested);
    let cancel = worker.beat_until((1, std::slice::from_ref(&run)), "a cancel", a_cancel).await;
    assert_eq!(cancel.reason, "REQUESTED");
    worker.complete(&run, Outcome::Cancelled).await;
    cell.until_state(key, "CANCELLED").await;
    assert_eq!(cell.end(key).await, "CANCELLED(REQUESTED)");
}

/// Crash window "put off, not parked": the dispatcher dies between its claim and the parking. Another one parks the run.
#[tokio::test]
async fn a_dispatcher_that_dies_between_claim_and_parking_loses_nothing() {
    let cell = Cell::create().await;
    let (one, mut two) = (cell.dispatcher("one").await, cell.dispatcher("two").await);
    let (mut holder, _) = one.worker(&cell, 1).await;
    let job = cell.job(60_000).await;
    let older = cell.due_with(job, 9, Queue).await;
    let (_, run) = attempt(&first_run(&mut holder).await);
    let in_hand = std::slice::from_ref(&run);
    holder.accept(&run).await;
    cell.until_count(1, "the acceptance", "SELECT count(*) FROM run_lease WHERE accepted_at IS NOT NULL")
        .await;

    // The open run's lease is locked, so that the parking waits where it is to be killed.
    let mut client = cell.store.client("hold a lease").await.expect("connected");
    let tx = client.begin("hold a lease").await.expect("begun");
    let held = store::run_lease::lock(&tx, &[older], Duration::ZERO).await.expect("locked");
    assert_eq!(held.len(), 1);
    let (_free, _) = two.worker(&cell, 1).await;
    let newer = cell.due_with(job, 3, Queue).await;
    const PARKING: &str = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
        AND wait_event_type = 'Lock' AND query LIKE '%Locks the leases of the jobs%'";
    cell.until_count(1, "a dispatcher that is about to park", PARKING).await;
    two.kill();
    drop(tx);
    drop(client);
    assert_eq!(cell.count(PARKED).await, 0);
    assert_eq!(cell.count("SELECT count(*) FROM run_queue").await, 1, "put off, not parked");

    let (mut free, _) = one.worker(&cell, 1).await;
    wait_for(LIMIT, "the parked run", async || {
        holder.heartbeat(1, in_hand).await;
        free.heartbeat(0, &[]).await;
        (cell.count(PARKED).await == 1).then_some(())
    })
    .await;
    holder.complete(&run, Outcome::Succeeded).await;
    cell.until_state(older, "SUCCEEDED").await;
    // Whichever of the two has a free slot gets it.
    let taken = wait_for(LIMIT, "the newer run", async || {
        let (_, to_holder) = holder.heartbeat(1, in_hand).await;
        let (_, to_free) = free.heartbeat(0, &[]).await;
        to_holder.into_iter().chain(to_free).find_map(an_assignment)
    })
    .await;
    assert_eq!(attempt(&taken).0.key, newer);
}
