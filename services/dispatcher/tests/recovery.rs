//! Workers and dispatchers that go away in the middle, and what becomes of the runs.

mod support;

use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::{from_worker, to_worker};
use support::{Cell, attempt};

#[tokio::test]
async fn a_dead_workers_run_is_handed_on_with_a_higher_token_and_the_old_report_is_stale() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut dying, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (first, old) = attempt(&dying.assignment().await);
    drop(dying);
    let (mut living, _) = dispatcher.worker(&cell, 1).await;
    let beating = async {
        // Its lease must not end while it waits.
        loop {
            let (_, before) = living.heartbeat(0, &[]).await;
            let handed_on = before.into_iter().find_map(|message| match message {
                to_worker::Message::Assignment(assignment) => Some(assignment),
                _ => None,
            });
            if let Some(assignment) = handed_on {
                return assignment;
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    };
    let handed_on = tokio::time::timeout(support::LIMIT, beating).await.expect("handed on");
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
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let processed = 1 + seen.len() as i64;
        for message in worker.heartbeat(processed, &[]).await.1 {
            if let to_worker::Message::Assignment(assignment) = message {
                seen.push((attempt(&assignment).0, assignment.number));
            }
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(seen[0], (first, 2), "the same attempt, to the same session first");
    assert_eq!((seen[1].0.key, seen[1].0.attempt), (first.key, 2));
    let undelivered = "SELECT count(*) FROM run_lease WHERE undelivered = 1 AND failed = 0 AND lost = 0";
    assert_eq!(cell.count(undelivered).await, 1);
}

#[tokio::test]
async fn an_assignment_on_its_way_is_not_taken_for_lost() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    // Lists from before the assignment cross it: more of them than it takes to compare twice.
    for _ in 0..10 {
        let (_, before) = worker.heartbeat(0, &[]).await;
        assert!(before.is_empty(), "{before:?}");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
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
    let cancelled = async {
        loop {
            let (_, before) = worker.heartbeat(1, std::slice::from_ref(&run)).await;
            if before.iter().any(|message| matches!(message, to_worker::Message::Cancel(_))) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(support::LIMIT, cancelled).await.expect("cancelled");
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
