//! The database's clock jumps: nothing is handed out or given up by it until it has been steady for ten seconds, and
//! no attempt's time is shortened.

mod support;

use model::ids::RunKey;
use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::{RunRef, to_worker};
use std::time::{Duration, Instant};
use support::{Cell, Worker, an_assignment, attempt};

/// For how long the clock must have been steady.
const AGREEMENT: Duration = Duration::from_secs(10);
const HOUR_MS: i64 = 3_600_000;

/// Heartbeats while `until` has not come; nothing may be said but the answers.
async fn beats_in_peace(worker: &mut Worker, in_hand: &[RunRef], until: Instant) {
    while Instant::now() < until {
        let (_, before) = worker.heartbeat(1, in_hand).await;
        assert!(before.is_empty(), "{before:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test]
async fn after_a_jump_ahead_nothing_is_claimed_or_ended_until_the_clock_is_steady() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let running = cell.due(cell.job(30_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    worker.accept(&run).await;
    cell.until_count(1, "an accepted attempt", "SELECT count(*) FROM run_lease WHERE deadline IS NOT NULL")
        .await;
    // Planned for half an hour from now, which the jump makes the past.
    let planned = cell.due(cell.job(60_000).await, -1_800).await;

    let jumped = Instant::now();
    store::clock::shift(&cell.store, HOUR_MS).await.expect("shifted");
    beats_in_peace(&mut worker, std::slice::from_ref(&run), jumped + AGREEMENT - Duration::from_millis(500))
        .await;
    let claimed = worker.beat_until((1, std::slice::from_ref(&run)), "the planned run", an_assignment).await;
    assert!(jumped.elapsed() >= AGREEMENT, "claimed after {:?}", jumped.elapsed());
    let (named, late) = attempt(&claimed);
    assert_eq!(named.key, planned);

    // Its thirty seconds are not over, whatever the clock says: it is neither told to stop nor ended.
    let compared = Instant::now() + 4 * support::RECONCILE;
    let in_hand = [run.clone(), late.clone()];
    while Instant::now() < compared {
        let (_, before) = worker.heartbeat(2, &in_hand).await;
        assert!(!before.iter().any(|message| matches!(message, to_worker::Message::Cancel(_))), "{before:?}");
        tokio::time::sleep(support::RECONCILE / 3).await;
    }
    ends_well(&cell, &mut worker, running, &run).await;
    ends_well(&cell, &mut worker, planned, &late).await;
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost or timed out");
}

async fn ends_well(cell: &Cell, worker: &mut Worker, key: RunKey, run: &RunRef) {
    worker.complete(run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
}

#[tokio::test]
async fn after_a_jump_nobody_is_reaped_or_swept_until_the_clock_is_steady() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);

    let jumped = Instant::now();
    store::clock::shift(&cell.store, -HOUR_MS).await.expect("shifted");
    // The next look comes within a second.
    beats_in_peace(&mut worker, &[run], jumped + Duration::from_secs(2)).await;
    drop(worker);
    let lost = "SELECT count(*) FROM run_outcome WHERE state = 'LOST'";
    while jumped.elapsed() < AGREEMENT - Duration::from_millis(500) {
        assert_eq!(cell.count(lost).await, 0, "given up after {:?}", jumped.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // It is dead all the same, and now that is noticed.
    cell.until_count(1, "the loss", lost).await;
}
