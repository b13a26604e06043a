//! Workers and dispatchers that go away in the middle, and what becomes of the runs.

mod support;

use rpc::v1;
use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::{from_worker, to_worker};
use stack::wait::wait_for;
use support::{Cell, Worker, a_cancel, an_assignment, attempt};

#[tokio::test]
async fn a_dead_workers_run_is_handed_on_with_a_higher_token_and_the_old_report_is_stale() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut dying, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (first, old) = attempt(&dying.assignment().await);
    drop(dying);
    let (mut living, _) = dispatcher.worker(&cell, 1).await;
    // Its lease must not end while it waits.
    let handed_on = living.beat_until((0, &[]), "the run of the dead worker", an_assignment).await;
    let (second, run) = attempt(&handed_on);
    assert_eq!((second.key, second.attempt), (key, 2));
    assert!(second.token > first.token);
    living.complete(&old, Outcome::Succeeded).await;
    assert_eq!(living.answer().await, Answer::Stale);
    living.complete(&run, Outcome::Succeeded).await;
    assert_eq!(living.answer().await, Answer::Recorded);
    // A loss spends no attempt, and it is in the ledger.
    let lost = "SELECT count(*) FROM run_outcome WHERE attempt = 1 AND state = 'LOST' AND NOT final";
    assert_eq!(cell.count(lost).await, 1);
}

#[tokio::test]
async fn a_worker_that_connects_again_keeps_its_run_and_reports_it() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, welcome) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    drop(worker);
    let (mut worker, again) = dispatcher.hello(&cell, 1, welcome.session_id.clone(), vec![run.clone()]).await;
    assert!(again.resumed);
    assert_eq!((again.session_id, again.connection), (welcome.session_id, 2));
    let (_, before) = worker.heartbeat(0, std::slice::from_ref(&run)).await;
    assert!(before.is_empty(), "it has its run already: {before:?}");
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
}

#[tokio::test]
async fn an_assignment_that_was_lost_with_its_connection_is_sent_again() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, welcome) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (lost, _) = attempt(&worker.assignment().await);
    drop(worker);
    let (mut worker, again) = dispatcher.hello(&cell, 1, welcome.session_id, Vec::new()).await;
    assert!(again.resumed);
    let assignment = worker.assignment().await;
    assert_eq!((attempt(&assignment).0, assignment.number), (lost, 1));
}

#[tokio::test]
async fn an_assignment_that_a_living_worker_never_got_is_sent_again_and_then_given_on() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (first, _) = attempt(&worker.assignment().await);
    // It says that it has processed the assignment, and that it has nothing.
    let again = worker.beat_until((1, &[]), "the same attempt again", an_assignment).await;
    assert_eq!((attempt(&again).0, again.number), (first, 2), "to the same session first");
    let next = worker.beat_until((2, &[]), "the next attempt", an_assignment).await;
    assert_eq!((attempt(&next).0.key, attempt(&next).0.attempt), (first.key, 2));
    let undelivered = "SELECT count(*) FROM run_lease WHERE undelivered = 1 AND failed = 0 AND lost = 0";
    assert_eq!(cell.count(undelivered).await, 1);
}

/// Says of an assignment, twice, that it never came; what comes instead, if the run goes on.
async fn deny(worker: &mut Worker, assignment: &v1::Assignment) -> v1::Assignment {
    let denied = (assignment.number, [].as_slice());
    let again = worker.beat_until(denied, "the same attempt again", an_assignment).await;
    assert_eq!(again.run, assignment.run, "to the same session first");
    worker.beat_until((again.number, &[]), "the next attempt", an_assignment).await
}

#[tokio::test]
async fn three_deliveries_that_never_started_spend_no_attempt() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let mut assignment = worker.assignment().await;
    for _ in 0..3 {
        assignment = deny(&mut worker, &assignment).await;
    }
    let spent = "SELECT count(*) FROM run_lease WHERE undelivered = 3 AND failed = 0 AND lost = 0";
    assert_eq!(cell.count(spent).await, 1);
    // Two may fail: this is the first.
    let (fourth, run) = attempt(&assignment);
    worker.complete(&run, Outcome::Failed).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    let (fifth, run) = attempt(&worker.assignment().await);
    assert_eq!((fourth.attempt, fifth.attempt), (4, 5));
    worker.complete(&run, Outcome::Succeeded).await;
    cell.until_state(key, "SUCCEEDED").await;
}

#[tokio::test]
async fn the_tenth_delivery_that_never_arrives_ends_the_run() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let mut assignment = worker.assignment().await;
    for _ in 1..10 {
        assignment = deny(&mut worker, &assignment).await;
    }
    let again = worker.beat_until((assignment.number, &[]), "the tenth attempt again", an_assignment).await;
    wait_for(support::LIMIT, "the end", async || {
        let (_, before) = worker.heartbeat(again.number, &[]).await;
        assert!(before.into_iter().find_map(an_assignment).is_none(), "ten times is enough");
        (cell.state(key).await == "FAILED").then_some(())
    })
    .await;
    assert_eq!(cell.end(key).await, "FAILED(UNDELIVERABLE)");
}

/// The network lets through what it says, and nothing to it.
#[tokio::test]
async fn a_worker_that_speaks_and_does_not_hear_is_missed_like_a_silent_one() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut deaf, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (first, run) = attempt(&deaf.assignment().await);
    let cut = std::time::Instant::now();
    let mut sequence = 1_000;
    let (mut living, _) = dispatcher.worker(&cell, 1).await;
    let handed_on = wait_for(support::LIMIT, "the run of the deaf worker", async || {
        sequence += 1;
        let unheard = Some(rpc::convert::time::duration(cut.elapsed()));
        let in_hand = vec![run.clone()];
        let heartbeat = v1::Heartbeat { sequence, processed: 1, in_hand, unheard };
        deaf.say_to_nobody(from_worker::Message::Heartbeat(heartbeat)).await;
        let (_, before) = living.heartbeat(0, &[]).await;
        before.into_iter().find_map(an_assignment)
    })
    .await;
    assert_eq!(attempt(&handed_on).0.attempt, first.attempt + 1);
    assert!(cut.elapsed() >= support::LEASE, "not before its lease has ended");
}

#[tokio::test]
async fn an_assignment_on_its_way_is_not_taken_for_lost() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    // Lists from before the assignment cross it, for longer than it takes to compare twice.
    let compared = tokio::time::Instant::now() + 3 * support::RECONCILE;
    while tokio::time::Instant::now() < compared {
        let (_, before) = worker.heartbeat(0, &[]).await;
        assert!(before.is_empty(), "{before:?}");
        tokio::time::sleep(support::RECONCILE / 10).await;
    }
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
}

#[tokio::test]
async fn a_claim_whose_commit_was_not_answered_is_delivered_by_the_comparison() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, welcome) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, -60).await;
    // What such a claim leaves behind: a lease that the dispatcher knows nothing of.
    cell.meddle(&format!(
        "WITH row AS (DELETE FROM run_queue RETURNING *)
        INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
            undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
        SELECT job_id, tenant_id, '{}', gen_random_uuid(), scheduled_for, esc_now(), 1, (1::bigint << 44) | nextval('token_seq'),
            0, 0, 0, 0, 1, 1, origin, exclusive, queue FROM row",
        welcome.session_id
    ))
    .await;
    let (named, run) = attempt(&worker.assignment().await);
    assert_eq!(named.key, key);
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
}

#[tokio::test]
async fn a_run_that_is_no_longer_a_workers_is_cancelled_by_the_lists() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    cell.meddle("DELETE FROM run_lease").await;
    let cancel = worker.beat_until((1, std::slice::from_ref(&run)), "a cancel", a_cancel).await;
    assert_eq!(cancel.run, Some(run));
}

#[tokio::test]
async fn a_killed_dispatchers_worker_goes_on_with_another_and_keeps_its_run() {
    let cell = Cell::create().await;
    let mut dying = cell.dispatcher("dying").await;
    let living = cell.dispatcher("living").await;
    let (mut worker, welcome) = dying.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    dying.kill();
    assert!(worker.next().await.is_none());
    let (mut worker, again) = living.hello(&cell, 1, welcome.session_id, vec![run.clone()]).await;
    assert!(again.resumed);
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
}

#[tokio::test]
async fn the_runs_of_a_dead_dispatchers_dead_worker_are_given_on_by_another() {
    let cell = Cell::create().await;
    let mut dying = cell.dispatcher("dying").await;
    let (mut worker, welcome) = dying.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    attempt(&worker.assignment().await);
    dying.kill();
    drop(worker);
    let living = cell.dispatcher("living").await;
    let lost = "SELECT count(*) FROM run_outcome WHERE state = 'LOST' AND NOT final";
    cell.until_count(1, "the loss", lost).await;
    let (_, refused) = living.hello(&cell, 1, welcome.session_id.clone(), Vec::new()).await;
    assert!(!refused.resumed);
    assert_ne!(refused.session_id, welcome.session_id);
}

#[tokio::test]
async fn a_stopping_dispatcher_sends_its_workers_elsewhere_with_their_runs() {
    let cell = Cell::create().await;
    let mut stopping = cell.dispatcher("stopping").await;
    let other = cell.dispatcher("other").await;
    let (mut worker, welcome) = stopping.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    let moving = async {
        assert!(matches!(worker.next().await, Some(to_worker::Message::Drain(_))));
        let (mut worker, again) = other.hello(&cell, 1, welcome.session_id, vec![run.clone()]).await;
        assert!(again.resumed);
        worker.complete(&run, Outcome::Succeeded).await;
        assert_eq!(worker.answer().await, Answer::Recorded);
        worker.say(from_worker::Message::Goodbye(rpc::v1::Goodbye {})).await;
    };
    tokio::join!(stopping.terminate(), moving);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
    assert_eq!(cell.count("SELECT count(*) FROM dispatcher").await, 1);
}

/// SIGSTOP for longer than a lease: its workers said all they had to, it only did not listen.
#[tokio::test]
async fn a_dispatcher_that_stood_still_gives_no_run_away() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    dispatcher.child.stop().expect("stopped");
    tokio::time::sleep(2 * support::LEASE).await;
    dispatcher.child.cont().expect("goes on");
    cell.until_renewed_twice().await;
    worker.heartbeat(1, std::slice::from_ref(&run)).await;
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
    assert_eq!(cell.count("SELECT count(*) FROM run_outcome").await, 0, "no attempt was lost");
}

/// One report that can't be written must not keep the others of its group from being recorded.
#[tokio::test]
async fn a_report_that_spoils_its_group_is_recorded_once_it_can_be() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 2).await;
    let bad = cell.due(cell.job(60_000).await, 2).await;
    let good = cell.due(cell.job(60_000).await, 1).await;
    let mut runs = std::collections::BTreeMap::new();
    for _ in 0..2 {
        let (named, run) = attempt(&worker.assignment().await);
        runs.insert(named.key, run);
    }
    let refuse = format!("ALTER TABLE run_output ADD CONSTRAINT spoilt CHECK (job_id <> '{}')", bad.job_id);
    cell.meddle(&refuse).await;
    worker.complete(&runs[&bad], Outcome::Succeeded).await;
    worker.complete(&runs[&good], Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!((cell.state(good).await.as_str(), cell.state(bad).await.as_str()), ("SUCCEEDED", "PLANNED"));
    cell.meddle("ALTER TABLE run_output DROP CONSTRAINT spoilt").await;
    worker.complete(&runs[&bad], Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(bad).await, "SUCCEEDED");
}
