//! A run's life through a real dispatcher, as its worker sees it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use rpc::v1::completed::Outcome;
use rpc::v1::completion_ack::Answer;
use rpc::v1::to_worker;
use std::time::Duration;
use support::{Cell, Dispatcher, Worker, a_cancel, an_assignment, attempt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

#[tokio::test]
async fn a_due_run_is_handed_over_accepted_reported_and_recorded() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, welcome) = dispatcher.worker(&cell, 2).await;
    assert!(!welcome.resumed && welcome.connection == 1);
    let key = cell.due(cell.job(60_000).await, 1).await;
    let assignment = worker.assignment().await;
    let (named, run) = attempt(&assignment);
    assert_eq!((assignment.number, named.key, named.attempt, named.token.epoch()), (1, key, 1, 1));
    assert_eq!(assignment.idempotency_key, key.idempotency_key());
    assert_eq!(assignment.guard_key, key.job_id.to_string());
    worker.accept(&run).await;
    let accepted = "SELECT count(*) FROM run_lease WHERE accepted_at IS NOT NULL AND deadline > accepted_at";
    cell.until_count(1, "the acceptance", accepted).await;
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "SUCCEEDED");
    let recorded = "SELECT count(*) FROM run JOIN run_output o USING (job_id, scheduled_for) WHERE run.attempt = 1 \
        AND run.token IS NOT NULL AND run.worker IS NOT NULL AND run.claimed_at <= run.accepted_at \
        AND run.accepted_at <= run.finished_at AND o.tail = 'done'";
    assert_eq!(cell.count(recorded).await, 1);
    assert_eq!(cell.count("SELECT count(*) FROM run_lease").await, 0);
}

#[tokio::test]
async fn a_run_is_never_handed_over_before_its_second() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, -3).await;
    let assignment = worker.beat_until((0, &[]), "the run at its second", an_assignment).await;
    let (named, _) = attempt(&assignment);
    assert_eq!(named.key, key);
    let lateness = "SELECT (extract(epoch FROM l.claimed_at - r.due_at) * 1000)::bigint \
        FROM run_lease l JOIN run r USING (job_id, scheduled_for)";
    let lateness_ms = cell.count(lateness).await;
    assert!((0..1_000).contains(&lateness_ms), "claimed {lateness_ms} ms after it was due");
}

#[tokio::test]
async fn a_report_that_comes_again_is_recorded_and_one_that_never_fitted_is_stale() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (named, run) = attempt(&worker.assignment().await);
    let mut foreign = run.clone();
    foreign.token = (named.token.as_i64() + 1).to_string();
    worker.complete(&foreign, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Stale);
    assert_eq!(cell.state(key).await, "PLANNED");
    for _ in 0..3 {
        worker.complete(&run, Outcome::Succeeded).await;
        assert_eq!(worker.answer().await, Answer::Recorded);
    }
    worker.complete(&run, Outcome::Failed).await;
    assert_eq!(worker.answer().await, Answer::Stale, "another outcome was recorded");
    assert_eq!(cell.count("SELECT count(*) FROM run_output").await, 1);
}

/// A report is matched by its session, too: nobody reports for another worker.
#[tokio::test]
async fn a_report_from_another_session_is_stale_whatever_it_names() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    let (mut other, _) = dispatcher.worker(&cell, 1).await;
    other.complete(&run, Outcome::Succeeded).await;
    let answer = |message| match message {
        to_worker::Message::CompletionAck(ack) => Some(ack.answer()),
        _ => None,
    };
    assert_eq!(other.beat_until((0, &[]), "an answer", answer).await, Answer::Stale);
    assert_eq!(cell.state(key).await, "PLANNED");
}

/// A worker that connects again says so anew of everything that it has in hand.
#[tokio::test]
async fn a_start_that_is_said_again_counts_once_as_late() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    for recorded_before in [true, false] {
        let before = times_late(&dispatcher).await;
        cell.due(cell.job(60_000).await, 1).await;
        let (_, run) = attempt(&worker.assignment().await);
        if recorded_before {
            worker.accept(&run).await;
            let accepted = "SELECT count(*) FROM run_lease WHERE accepted_at IS NOT NULL";
            cell.until_count(1, "the acceptance", accepted).await;
        }
        // All in one group, most likely.
        worker.accept(&run).await;
        worker.accept(&run).await;
        worker.complete(&run, Outcome::Succeeded).await;
        assert_eq!(worker.answer().await, Answer::Recorded);
        assert_eq!(times_late(&dispatcher).await, before + 1, "recorded before: {recorded_before}");
    }
}

/// A retry waits on purpose.
#[tokio::test]
async fn the_start_of_a_second_attempt_does_not_count_as_late() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(60_000).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    worker.complete(&run, Outcome::Failed).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    let (second, run) = attempt(&worker.assignment().await);
    assert_eq!(second.attempt, 2);
    worker.accept(&run).await;
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(times_late(&dispatcher).await, 0);
}

/// How many starts the dispatcher's metrics have counted.
async fn times_late(dispatcher: &Dispatcher) -> u64 {
    let address = dispatcher.http.strip_prefix("http://").expect("an address");
    let mut connection = TcpStream::connect(address).await.expect("connected");
    connection.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").await.expect("asked");
    let mut text = String::new();
    connection.read_to_string(&mut text).await.expect("answered");
    let count = |line: &str| line.starts_with("dispatcher_run_lateness") && line.contains("_count");
    let counts = text.lines().filter(|line| count(line));
    counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
}

#[tokio::test]
async fn a_failed_attempt_is_tried_again_and_the_last_one_ends_the_run() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let key = cell.due(cell.job(60_000).await, 1).await;
    let (first, run) = attempt(&worker.assignment().await);
    worker.complete(&run, Outcome::Failed).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    let (second, run) = attempt(&worker.assignment().await);
    assert_eq!((second.key, second.attempt), (key, 2));
    assert!(second.token > first.token);
    worker.complete(&run, Outcome::NotStarted).await;
    assert_eq!(worker.answer().await, Answer::Recorded);
    assert_eq!(cell.state(key).await, "FAILED");
    let outcomes = "SELECT count(*) FROM run_outcome WHERE (attempt = 1 AND NOT final AND reason = 'WORK_FAILED') \
        OR (attempt = 2 AND final AND reason = 'NOT_STARTED')";
    assert_eq!(cell.count(outcomes).await, 2);
}

#[tokio::test]
async fn a_run_past_its_time_is_cancelled_and_then_timed_out_without_its_worker() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    cell.due(cell.job(100).await, 1).await;
    let (_, run) = attempt(&worker.assignment().await);
    worker.accept(&run).await;
    let accepted = "SELECT count(*) FROM run_lease WHERE accepted_at IS NOT NULL";
    cell.until_count(1, "the acceptance", accepted).await;
    cell.meddle("UPDATE run_lease SET deadline = esc_now()").await;
    let in_hand = std::slice::from_ref(&run);
    let cancel = worker.beat_until((1, in_hand), "a cancel", a_cancel).await;
    assert_eq!(cancel.reason, "MAX_RUNTIME");
    cell.meddle("UPDATE run_lease SET deadline = esc_now() - interval '1 hour'").await;
    let next = worker.beat_until((1, in_hand), "the next attempt", an_assignment).await;
    assert_eq!(attempt(&next).0.attempt, 2);
    let ended = "SELECT count(*) FROM run_outcome WHERE state = 'TIMED_OUT' AND NOT final";
    assert_eq!(cell.count(ended).await, 1);
    worker.complete(&run, Outcome::Succeeded).await;
    assert_eq!(worker.answer().await, Answer::Stale);
}

#[tokio::test]
async fn only_a_workers_token_opens_a_session_and_only_with_a_sound_hello() {
    let cell = Cell::create().await;
    let dispatcher = cell.dispatcher("one").await;
    let refused = |hello, secret: &str| {
        let (address, secret) = (dispatcher.address.clone(), secret.to_owned());
        async move { Worker::dial(&address, &secret, hello).await.err().expect("refused") }
    };
    let hello = rpc::v1::Hello { queues: vec!["q".to_owned()], slots: 1, ..rpc::v1::Hello::default() };
    assert_eq!(refused(hello.clone(), "wrong").await.code(), tonic::Code::Unauthenticated);
    let none = rpc::v1::Hello { slots: 0, ..hello.clone() };
    assert_eq!(refused(none, &cell.secret).await.code(), tonic::Code::InvalidArgument);
    let viewer = store::api_token::new_secret().expect("randomness");
    let token = store::api_token::NewToken {
        tenant: Some(model::ids::TenantId::DEFAULT),
        name: "viewer",
        role: store::api_token::Role::Viewer,
        secret: &viewer,
    };
    store::api_token::create(&cell.store, token).await.expect("a token");
    assert_eq!(refused(hello, &viewer).await.code(), tonic::Code::PermissionDenied);
    assert_eq!(cell.count("SELECT count(*) FROM worker_session").await, 0);
}

#[tokio::test]
async fn a_heartbeat_tells_the_age_of_the_last_renewal_and_a_stopped_dispatcher_leaves_no_row() {
    let cell = Cell::create().await;
    let mut dispatcher = cell.dispatcher("one").await;
    let (mut worker, _) = dispatcher.worker(&cell, 1).await;
    let (age, _) = worker.heartbeat(0, &[]).await;
    assert!(age < Duration::from_millis(2_500), "{age:?}");
    worker.say(rpc::v1::from_worker::Message::Goodbye(rpc::v1::Goodbye {})).await;
    assert!(worker.next().await.is_none(), "the dispatcher closes after Goodbye");
    assert_eq!(cell.count("SELECT count(*) FROM worker_session WHERE ended_at IS NULL").await, 0);
    dispatcher.terminate().await;
    assert_eq!(cell.count("SELECT count(*) FROM dispatcher").await, 0);
}
