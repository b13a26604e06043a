//! The session as a dispatcher sees it: what the worker says, and says again, whatever happens to the connection.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake;
mod subject;

use fake::{FakeDispatcher, LIMIT, TERMS, Terms, handler, run};
use rpc::v1::completed::Outcome;
use rpc::v1::{self, from_worker, to_worker};
use std::time::Duration;
use subject::{HOUR, Subject, give};
use worker::Summary;

#[tokio::test]
async fn hello_names_the_worker_and_carries_the_token() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let session = dispatcher.accept().await;
    assert_eq!(session.authorization, "Bearer secret");
    assert_eq!((session.hello.name.as_str(), session.hello.slots), ("subject", 4));
    assert_eq!((session.hello.session_id.as_str(), session.hello.queues.len()), ("", 1));
}

#[tokio::test]
async fn a_run_is_accepted_reported_and_kept_until_acknowledged() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let invoice = run(1, 1);
    give(&mut session, 1, &invoice).await;
    worker.open();
    for _ in 0..3 {
        let completed = session.completed().await;
        assert_eq!((completed.outcome(), completed.run.as_ref()), (Outcome::Succeeded, Some(&invoice)));
    }
    let heartbeat = session.heartbeat().await;
    assert_eq!((heartbeat.processed, heartbeat.in_hand), (1, vec![invoice.clone()]));
    session.acknowledge(&invoice).await;
    session.expect("an empty hand", an_empty_hand).await;
}

fn an_empty_hand(message: from_worker::Message) -> Option<()> {
    match message {
        from_worker::Message::Heartbeat(heartbeat) => heartbeat.in_hand.is_empty().then_some(()),
        _ => None,
    }
}

#[tokio::test]
async fn a_report_that_is_refused_as_stale_is_let_go() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let invoice = run(1, 1);
    give(&mut session, 1, &invoice).await;
    worker.open();
    session.completed().await;
    let answer = v1::completion_ack::Answer::Stale.into();
    let ack = v1::CompletionAck { run: Some(invoice), answer };
    session.send(to_worker::Message::CompletionAck(ack)).await;
    session.expect("an empty hand", an_empty_hand).await;
}

#[tokio::test]
async fn an_assignment_that_names_no_run_counts_as_processed() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let nameless = v1::Assignment { number: 7, ..v1::Assignment::default() };
    session.send(to_worker::Message::Assignment(nameless)).await;
    session
        .expect("its number", |message| match message {
            from_worker::Message::Heartbeat(heartbeat) => (heartbeat.processed == 7).then_some(()),
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn a_duplicate_assignment_starts_nothing_twice() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let invoice = run(1, 1);
    give(&mut session, 1, &invoice).await;
    give(&mut session, 2, &invoice).await;
    worker.open();
    assert_eq!(session.completed().await.outcome(), Outcome::Succeeded);
    session.assign(3, &invoice, handler("gate", ""), HOUR).await;
    assert_eq!(session.outcome().await, Outcome::Succeeded);
    assert_eq!(worker.starts(), 1);
}

#[tokio::test]
async fn a_broken_connection_is_resumed_elsewhere_with_the_runs_in_hand() {
    let mut dispatchers = [FakeDispatcher::start().await, FakeDispatcher::start().await];
    let worker = {
        let [first, second] = &dispatchers;
        Subject::start(&[first, second])
    };
    let (at, mut session) = {
        let [first, second] = &mut dispatchers;
        tokio::select! {
            session = first.accept() => (0, session),
            session = second.accept() => (1, session),
        }
    };
    session.welcome("s1", false, TERMS).await;
    let (running, ended) = (run(1, 1), run(2, 1));
    give(&mut session, 1, &ended).await;
    worker.open();
    session.completed().await;
    give(&mut session, 2, &running).await;
    drop(session);

    let mut session = dispatchers[1 - at].accept().await;
    assert_eq!(session.hello.session_id, "s1");
    assert_eq!(session.hello.in_hand, [running.clone(), ended.clone()]);
    session.welcome("s1", true, TERMS).await;
    assert_eq!(session.accepted().await, running, "said again: the first may have been lost");
    let again = session.completed().await;
    assert_eq!(again.run.as_ref(), Some(&ended), "said again: it was never acknowledged");
    session.acknowledge(&ended).await;
    worker.open();
    assert_eq!(session.outcome().await, Outcome::Succeeded);
    assert_eq!(worker.starts(), 2, "the break started nothing again");
}

#[tokio::test]
async fn work_goes_on_and_ends_while_no_dispatcher_answers() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    drop(session);
    worker.open();
    let mut session = dispatcher.welcome("s1", true).await;
    assert_eq!(session.outcome().await, Outcome::Succeeded);
}

#[tokio::test]
async fn a_session_that_is_gone_cancels_every_run() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    drop(session);
    let mut session = dispatcher.welcome("s2", false).await;
    let completed = session.completed().await;
    assert_eq!(completed.outcome(), Outcome::Abandoned);
    assert!(completed.error.contains("session had ended"), "{}", completed.error);
}

#[tokio::test]
async fn a_silent_dispatcher_is_left() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut silent = dispatcher.welcome("s1", false).await;
    silent.answers = false;
    silent.heartbeat().await;
    let next = dispatcher.accept().await;
    assert_eq!(next.hello.session_id, "s1");
}

#[tokio::test]
async fn a_draining_dispatcher_is_left_at_once() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let session = dispatcher.welcome("s1", false).await;
    session.send(to_worker::Message::Drain(v1::Drain {})).await;
    assert_eq!(dispatcher.accept().await.hello.session_id, "s1");
}

#[tokio::test]
async fn who_is_sent_on_and_finds_nobody_comes_back_before_it_tries_a_third() {
    let mut fakes =
        [FakeDispatcher::start().await, FakeDispatcher::start().await, FakeDispatcher::start().await];
    let _worker = {
        let [first, second, third] = &fakes;
        Subject::start(&[first, second, third])
    };
    let (at, mut session) = {
        let [first, second, third] = &mut fakes;
        tokio::select! {
            session = first.accept() => (0, session),
            session = second.accept() => (1, session),
            session = third.accept() => (2, session),
        }
    };
    session.welcome("s1", false, TERMS).await;
    session.heartbeat().await;
    session.send(to_worker::Message::Drain(v1::Drain {})).await;
    fakes.rotate_left(at);
    let [own, next, third] = &mut fakes;
    drop(next.accept().await);
    let back = tokio::select! {
        back = own.accept() => back,
        _ = third.accept() => panic!("it tried a third"),
    };
    assert_eq!(back.hello.session_id, "s1");
    back.welcome("s1", true, TERMS).await;
    drop(back);
    tokio::select! {
        _ = third.accept() => {}
        _ = next.accept() => panic!("it tried the one that has just failed"),
    }
}

#[tokio::test]
async fn a_cancelled_run_ends_as_cancelled() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let invoice = run(1, 1);
    give(&mut session, 1, &invoice).await;
    session.cancel(&invoice, "by hand").await;
    let completed = session.completed().await;
    assert_eq!(completed.outcome(), Outcome::Cancelled);
    assert_eq!(completed.error, "cancelled: by hand (told to stop)");
}

#[tokio::test]
async fn work_that_ignores_the_request_is_dropped_after_the_grace() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    let invoice = run(1, 1);
    session.assign(1, &invoice, handler("stubborn", ""), HOUR).await;
    session.accepted().await;
    session.cancel(&invoice, "by hand").await;
    let completed = session.completed().await;
    assert_eq!(completed.outcome(), Outcome::Cancelled);
    assert!(completed.error.contains("was dropped"), "{}", completed.error);
}

#[tokio::test]
async fn a_run_is_stopped_after_its_maximum_runtime() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    session.assign(1, &run(1, 1), handler("gate", ""), Duration::from_millis(300)).await;
    assert_eq!(session.outcome().await, Outcome::TimedOut);
}

#[tokio::test]
async fn a_lease_that_is_not_renewed_ends_the_runs_and_a_later_report_says_so() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.accept().await;
    session.welcome("s1", false, Terms { heartbeat_ms: 200, self_deadline_ms: 800, ..TERMS }).await;
    session.answers = false;
    give(&mut session, 1, &run(1, 1)).await;
    // It answers, so the connection is good, but its own last renewal lies too far back.
    let began = std::time::Instant::now();
    let answer_until_completed = async {
        loop {
            match session.next().await.expect("connected") {
                from_worker::Message::Heartbeat(heartbeat) => {
                    session.answer(&heartbeat, began.elapsed() + Duration::from_millis(100)).await;
                }
                from_worker::Message::Completed(completed) => return completed,
                _ => {}
            }
        }
    };
    let completed = tokio::time::timeout(LIMIT, answer_until_completed).await.expect("the run ends");
    assert_eq!(completed.outcome(), Outcome::Abandoned);
    assert!(completed.error.contains("lease could not be renewed"), "{}", completed.error);
    assert!(began.elapsed() < Duration::from_secs(3), "took {:?}", began.elapsed());
    drop(worker);
}

#[tokio::test]
async fn a_worker_without_any_dispatcher_ends_its_runs_by_itself() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.accept().await;
    session.welcome("s1", false, Terms { heartbeat_ms: 200, self_deadline_ms: 500, ..TERMS }).await;
    give(&mut session, 1, &run(1, 1)).await;
    drop(session);
    // Connections are taken and never welcomed for longer than the deadline.
    let refused = tokio::time::Instant::now() + Duration::from_millis(900);
    let mut session = loop {
        let session = dispatcher.accept().await;
        if tokio::time::Instant::now() >= refused {
            break session;
        }
    };
    session.welcome("s1", true, TERMS).await;
    assert_eq!(session.outcome().await, Outcome::Abandoned);
    assert_eq!(worker.starts(), 1);
}

#[tokio::test]
async fn a_panic_is_a_failure_with_its_text() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.accept().await;
    // A backtrace takes its time, and this whole process with it: no heartbeat is to be missed meanwhile.
    let patient = Terms { heartbeat_ms: 60_000, self_deadline_ms: 180_000, ..TERMS };
    session.welcome("s1", false, patient).await;
    session.assign(1, &run(1, 1), handler("panics", ""), HOUR).await;
    let completed = session.completed().await;
    assert_eq!(
        (completed.outcome(), completed.error.as_str()),
        (Outcome::Failed, "the work panicked: no paper")
    );
}

#[tokio::test]
async fn work_that_no_handler_takes_is_not_started() {
    let mut dispatcher = FakeDispatcher::start().await;
    let _worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    session.assign(1, &run(1, 1), handler("unknown", ""), HOUR).await;
    let completed = session.completed().await;
    assert_eq!(completed.outcome(), Outcome::NotStarted);
    assert!(completed.error.contains("no handler \"unknown\""), "{}", completed.error);
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_hand_and_says_goodbye() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    worker.shutdown.cancel();
    session.expect("Drain", |message| matches!(message, from_worker::Message::Drain(_)).then_some(())).await;
    let before = session.heartbeat().await.sequence;
    assert!(session.heartbeat().await.sequence > before, "heartbeats go on");
    worker.open();
    assert_eq!(session.outcome().await, Outcome::Succeeded);
    session
        .expect("Goodbye", |message| matches!(message, from_worker::Message::Goodbye(_)).then_some(()))
        .await;
    assert!(session.next().await.is_none(), "nothing comes after Goodbye");
    drop(session);
    assert_eq!(worker.ended().await, Summary { finished: 1, unreported: 0 });
}

#[tokio::test]
async fn a_draining_worker_says_so_on_its_next_connection_too() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start(&[&dispatcher]);
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    worker.shutdown.cancel();
    let drain = |message| matches!(message, from_worker::Message::Drain(_)).then_some(());
    session.expect("Drain", drain).await;
    drop(session);
    let mut session = dispatcher.welcome("s1", true).await;
    session.expect("Drain again", drain).await;
}

#[tokio::test]
async fn a_drain_that_takes_too_long_gives_runs_back() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start_with(&[&dispatcher], |builder| builder.drain(Duration::from_secs(2)));
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    worker.shutdown.cancel();
    assert_eq!(session.outcome().await, Outcome::Abandoned);
    drop(session);
    assert_eq!(worker.ended().await, Summary { finished: 1, unreported: 0 });
}

#[tokio::test]
async fn a_drain_ends_without_a_dispatcher() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start_with(&[&dispatcher], |builder| builder.drain(Duration::from_secs(2)));
    let mut session = dispatcher.welcome("s1", false).await;
    give(&mut session, 1, &run(1, 1)).await;
    drop(session);
    drop(dispatcher);
    worker.shutdown.cancel();
    assert_eq!(worker.ended().await, Summary { finished: 1, unreported: 1 });
}
