//! Work goes on while no dispatcher has the database, and is seen while it does.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fake;
mod subject;

use fake::{FakeDispatcher, LIMIT, Session, TERMS, Terms, handler, run};
use rpc::v1::completed::Outcome;
use rpc::v1::{self, from_worker};
use std::time::Duration;
use subject::{HOUR, Subject, give};
use worker::{BoxError, RunContext};

/// Answers as a dispatcher whose last renewal was when `began`, and without the database since; what completes first.
async fn answer_without_database(
    session: &mut Session,
    began: std::time::Instant,
    dispatchers: &[(&str, &FakeDispatcher)],
) -> v1::Completed {
    session.answers = false;
    let answering = async {
        loop {
            match session.next().await.expect("connected") {
                from_worker::Message::Heartbeat(heartbeat) => {
                    session.answer_without(&heartbeat, began.elapsed(), dispatchers).await;
                }
                from_worker::Message::Completed(completed) => return completed,
                _ => {}
            }
        }
    };
    tokio::time::timeout(LIMIT, answering).await.expect("the run ends")
}

fn says(dispatcher: &FakeDispatcher, id: &str, without_database: bool) {
    let standing = v1::StandingResponse { dispatcher_id: id.to_owned(), without_database };
    *dispatcher.standing.lock().unwrap() = Some(standing);
}

#[tokio::test]
async fn while_every_dispatcher_is_without_the_database_the_work_goes_on() {
    let (mut own, other) = (FakeDispatcher::start().await, FakeDispatcher::start().await);
    let worker = Subject::start(&[&own]);
    let mut session = own.accept().await;
    session.welcome("s1", false, Terms { self_deadline_ms: 2_500, ..TERMS }).await;
    give(&mut session, 1, &run(1, 1)).await;
    says(&own, "own", true);
    says(&other, "other", true);
    let began = std::time::Instant::now();
    let dispatchers = [("own", &own), ("other", &other)];
    let ending = async {
        // Three times the deadline: then one has the database back, and the next renewal decides.
        tokio::time::sleep(Duration::from_millis(7_500)).await;
        says(&other, "other", false);
    };
    let (completed, ()) = tokio::join!(answer_without_database(&mut session, began, &dispatchers), ending);
    assert_eq!(completed.outcome(), Outcome::Abandoned);
    let took = began.elapsed();
    assert!(took > Duration::from_millis(7_500) && took < Duration::from_secs(11), "took {took:?}");
    drop(worker);
}

#[tokio::test]
async fn a_dispatcher_that_does_not_answer_may_have_the_database() {
    let (mut own, silent) = (FakeDispatcher::start().await, FakeDispatcher::start().await);
    let worker = Subject::start(&[&own]);
    let mut session = own.accept().await;
    session.welcome("s1", false, Terms { self_deadline_ms: 2_000, ..TERMS }).await;
    give(&mut session, 1, &run(1, 1)).await;
    says(&own, "own", true);
    let began = std::time::Instant::now();
    let completed = answer_without_database(&mut session, began, &[("own", &own), ("silent", &silent)]).await;
    assert_eq!(completed.outcome(), Outcome::Abandoned);
    assert!(began.elapsed() < Duration::from_secs(4), "took {:?}", began.elapsed());
    drop(worker);
}

#[tokio::test]
async fn what_a_run_logs_is_shown_while_it_runs_and_kept_as_its_output() {
    let mut dispatcher = FakeDispatcher::start().await;
    let worker = Subject::start_with(&[&dispatcher], |builder| {
        builder.handler("talks", |run: RunContext| async move {
            run.log("one");
            run.progress(0.4, "counting");
            tokio::time::sleep(Duration::from_millis(1_500)).await;
            run.log("two");
            Ok::<(), BoxError>(())
        })
    });
    let mut session = dispatcher.welcome("s1", false).await;
    session.assign(1, &run(1, 1), handler("talks", ""), HOUR).await;
    let live = |message| match message {
        from_worker::Message::Live(live) => Some(live),
        _ => None,
    };
    let shown = session.expect("what it logs", live).await;
    assert_eq!((shown.offset, shown.tail.as_slice()), (0, b"one\n".as_slice()));
    assert_eq!((shown.fraction, shown.note.as_str()), (Some(0.4), "counting"));
    assert_eq!(session.expect("the last of it", live).await.tail, b"one\ntwo\n");
    assert_eq!(session.completed().await.output, b"one\ntwo\n");
    drop(worker);
}
