//! Ends and retries of attempts, sessions that end, and who may not report any more.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use handing::{Floor, attempt};
use model::attempt::Spent;
use model::ids::{DispatcherId, RunKey, SessionId};
use model::run::{Reason, State};
use std::collections::BTreeMap;
use std::time::Duration;
use store::run_end::{self, Attempt, End, Output};
use store::run_lease::{self, Acceptance, Retry, assignment::Assignment};
use store::worker_session::{self, Resumed, Seen};
use store::{StoreError, run_outcome};

fn succeeded(key: RunKey, attempt: Attempt) -> End {
    End { key, attempt: Some(attempt), state: State::Succeeded, reason: None, output: None }
}

async fn end(floor: &Floor, ends: &[End]) -> Result<usize, StoreError> {
    let mut client = floor.cell.store.client("end").await?;
    let tx = client.begin("end").await?;
    let ended = run_end::end(&tx, ends).await?;
    tx.commit().await?;
    Ok(ended.len())
}

async fn retry(floor: &Floor, assignment: &Assignment, after: Duration) -> usize {
    let retry = Retry {
        key: assignment.lease.key,
        attempt: attempt(assignment),
        state: State::Failed,
        reason: Reason::WorkFailed,
        spent: Spent { failed: 1, ..Spent::default() },
        after,
        output: Some(Output { exit_status: Some(3), error: "no".to_owned(), ..Output::default() }),
    };
    let mut client = floor.cell.store.client("retry").await.expect("connected");
    let tx = client.begin("retry").await.expect("begun");
    let retried = run_lease::retry(&tx, &[retry]).await.expect("retried");
    tx.commit().await.expect("committed");
    retried.len()
}

/// Two dispatchers end the same runs, which they name in opposite orders: each locks them in the one order of all.
#[tokio::test]
async fn ends_of_the_same_runs_in_any_order_do_not_deadlock() {
    let floor = Floor::create().await;
    let (worker, other) = (floor.worker().await, floor.cell.connect().await);
    for _ in 0..2 {
        floor.due(floor.job().await, 1, true).await;
    }
    let taken = floor.claim(worker, 2).await.assignments;
    let mut ends: Vec<End> = taken.iter().map(|taken| succeeded(taken.lease.key, attempt(taken))).collect();
    ends.sort_by_key(|end| end.key);
    let backwards: Vec<End> = ends.iter().rev().cloned().collect();
    let finish = async |ends: &[End]| {
        let keys: Vec<RunKey> = ends.iter().map(|end| end.key).collect();
        let mut client = floor.cell.store.client("end").await?;
        let tx = client.begin("end").await?;
        run_lease::lock(&tx, &keys, Duration::from_secs(1)).await?;
        let ended = run_end::end(&tx, ends).await?.len();
        tx.commit().await?;
        Ok::<_, StoreError>(ended)
    };
    // Somebody has the last one until both have come to wait: whoever took that first would be the first to have it.
    other.batch_execute("BEGIN").await.expect("begun");
    let last = ends[1].key.job_id.0;
    other.query("SELECT FROM run_lease WHERE job_id = $1 FOR UPDATE", &[&last]).await.expect("locked");
    let forwards = async {
        floor.someone_waits().await;
        finish(&ends).await
    };
    let release = async {
        let waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
        stack::wait::wait_for(Duration::from_secs(2), "two that wait", async || {
            (floor.one::<i64>(waiting).await == 2).then_some(())
        })
        .await;
        other.batch_execute("COMMIT").await.expect("released");
    };
    let (first, second, ()) = tokio::join!(finish(&backwards), forwards, release);
    let ended = first.expect("no deadlock") + second.expect("no deadlock");
    assert_eq!(ended, 2, "each once");
}

#[tokio::test]
async fn a_completion_must_name_the_attempt_the_token_and_the_session() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 1, true).await;
    let taken = floor.claim_one(worker).await;
    let (key, right) = (taken.lease.key, attempt(&taken));
    let token = model::token::Token::from_i64(right.token.as_i64() + 1).expect("positive");
    for stale in [
        Attempt { number: 2, ..right },
        Attempt { token, ..right },
        Attempt { session: Some(SessionId::random()), ..right },
    ] {
        assert_eq!(end(&floor, &[succeeded(key, stale)]).await.expect("answered"), 0, "{stale:?}");
    }
    assert_eq!(end(&floor, &[succeeded(key, right)]).await.expect("answered"), 1);
    assert_eq!(end(&floor, &[succeeded(key, right)]).await.expect("answered"), 0, "it has ended");
}

/// No lease is given back for an end that the ledger did not take: nobody would ever look for that run again.
#[tokio::test]
async fn an_end_that_the_ledger_does_not_take_keeps_its_lease() {
    let floor = Floor::create().await;
    let (worker, sql) = (floor.worker().await, floor.cell.connect().await);
    for _ in 0..2 {
        floor.due(floor.job().await, 1, true).await;
    }
    let taken = floor.claim(worker, 2).await.assignments;
    let ends: Vec<End> = taken.iter().map(|taken| succeeded(taken.lease.key, attempt(taken))).collect();
    let gone = ends[0].key.job_id.0;
    sql.execute("DELETE FROM run WHERE job_id = $1", &[&gone]).await.expect("deleted");
    let refused = end(&floor, &ends).await;
    assert!(matches!(&refused, Err(StoreError::Corrupt { what: "run", .. })), "{refused:?}");
    let leases: i64 = sql.query_one("SELECT count(*) FROM run_lease", &[]).await.expect("counted").get(0);
    assert_eq!(leases, 2, "nothing was committed");
    assert_eq!(end(&floor, &ends[1..]).await.expect("ended"), 1, "the other one ends alone");
}

#[tokio::test]
async fn an_acceptance_is_recorded_once_and_only_for_its_own_attempt() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 1, true).await;
    let taken = floor.claim_one(worker).await;
    let (key, right, limit) = (taken.lease.key, attempt(&taken), Duration::from_secs(9));
    let stale = Attempt { number: 7, ..right };
    for (named, expected) in [(stale, 0), (right, 1), (right, 0)] {
        let mut client = floor.cell.store.client("accept").await.expect("connected");
        let tx = client.begin("accept").await.expect("begun");
        let accepted = run_lease::accept(
            &tx,
            &[Acceptance { key, attempt: named, limit, age: Duration::from_millis(1) }],
        )
        .await
        .expect("accepted");
        tx.commit().await.expect("committed");
        assert_eq!(accepted.len(), expected, "{named:?}");
    }
    let kept = "SELECT extract(epoch FROM deadline - accepted_at)::bigint FROM run_lease";
    assert_eq!(floor.one::<i64>(kept).await, 9);
}

/// What ends as soon as it has started is written once; and an acceptance is never before its claim.
#[tokio::test]
async fn a_start_is_recorded_with_the_end_when_both_are_told_together() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    for age in [Duration::ZERO, Duration::from_secs(3_600)] {
        floor.due(floor.job().await, 1, true).await;
        let taken = floor.claim_one(worker).await;
        let key = taken.lease.key;
        let mut client = floor.cell.store.client("end").await.expect("connected");
        let tx = client.begin("end").await.expect("begun");
        let ends = [succeeded(key, attempt(&taken))];
        let ended = run_end::end_begun(&tx, &ends, &BTreeMap::from([(key, age)])).await.expect("ended");
        tx.commit().await.expect("committed");
        let kept = format!("SELECT accepted_at FROM run WHERE job_id = '{}'", key.job_id);
        assert_eq!(ended, BTreeMap::from([(key, Some(floor.one(&kept).await))]));
        let within = format!(
            "SELECT accepted_at BETWEEN claimed_at AND finished_at AND (accepted_at = claimed_at) = ({} > 0)
             FROM run WHERE job_id = '{}'",
            age.as_secs(),
            key.job_id
        );
        assert!(floor.one::<bool>(&within).await, "{age:?}");
    }
}

#[tokio::test]
async fn a_start_that_was_recorded_before_its_end_is_not_told_with_it() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 1, true).await;
    let taken = floor.claim_one(worker).await;
    let (key, named) = (taken.lease.key, attempt(&taken));
    let mut client = floor.cell.store.client("end").await.expect("connected");
    let tx = client.begin("accept").await.expect("begun");
    let acceptance = Acceptance { key, attempt: named, limit: Duration::from_secs(9), age: Duration::ZERO };
    let accepted = run_lease::accept(&tx, &[acceptance]).await.expect("accepted");
    let begun = BTreeMap::from([(key, Duration::ZERO)]);
    let ended = run_end::end_begun(&tx, &[succeeded(key, named)], &begun).await.expect("ended");
    tx.commit().await.expect("committed");
    assert_eq!(ended, BTreeMap::from([(key, None)]));
    assert_eq!(
        floor.one::<chrono::DateTime<chrono::Utc>>("SELECT accepted_at FROM run").await,
        accepted[&key]
    );
}

/// The lease stays during the backoff, so that nothing else of the job starts; and the retry is never late nor bounded.
#[tokio::test]
async fn a_retry_keeps_its_job_closed_during_the_backoff() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    let key = floor.due(job, 2, true).await;
    let first = floor.claim_one(worker).await;
    assert_eq!(retry(&floor, &first, Duration::from_secs(60)).await, 1);
    assert_eq!(retry(&floor, &first, Duration::ZERO).await, 0, "sent back once");
    floor.due(job, 1, true).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.assignments.len(), claimed.skipped), (0, 1));
    floor.side.execute("UPDATE run_queue SET due_at = esc_now()", &[]).await.expect("the backoff is over");
    let second = floor.claim_one(worker).await;
    assert_eq!((second.lease.key, second.lease.attempt, second.lease.spent.failed), (key, 2, 1));
    assert!(second.lease.token > first.lease.token);
    let recorded = "SELECT count(*) FROM run_outcome c JOIN run_output o USING (job_id, scheduled_for, attempt) \
        WHERE c.attempt = 1 AND NOT c.final AND c.reason = 'WORK_FAILED' AND o.exit_status = 3 AND o.error = 'no'";
    assert_eq!(floor.one::<i64>(recorded).await, 1);
    assert_eq!(
        end(&floor, &[succeeded(key, attempt(&first))]).await.expect("answered"),
        0,
        "the first is over"
    );
    assert_eq!(end(&floor, &[succeeded(key, attempt(&second))]).await.expect("answered"), 1);
    assert_eq!(store::run_lease::stranded(&floor.cell.store).await.expect("looked"), []);
}

/// A job that excludes its own runs is closed by a lost one until that is given up, and no longer.
#[tokio::test]
async fn a_run_that_is_given_up_as_lost_opens_its_job_again() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 4, true).await;
    let lost = floor.claim_one(worker).await;
    floor.due(job, 3, true).await;
    assert_eq!(floor.claim(worker, 10).await.skipped, 1, "nobody knows yet that it is lost");
    let given_up = End {
        state: State::Lost,
        reason: Some(Reason::WorkerLost),
        ..succeeded(lost.lease.key, attempt(&lost))
    };
    assert_eq!(end(&floor, &[given_up]).await.expect("ended"), 1);
    let next = floor.due(job, 2, true).await;
    let taken = floor.claim_one(worker).await;
    assert_eq!(taken.lease.key, next);
    assert!(taken.lease.token > lost.lease.token);
    assert_eq!(floor.state(lost.lease.key).await, "LOST(WORKER_LOST)");
}

#[tokio::test]
async fn what_was_recorded_is_found_again_by_attempt_and_token() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let key = floor.due(floor.job().await, 1, true).await;
    let first = floor.claim_one(worker).await;
    retry(&floor, &first, Duration::ZERO).await;
    let second = floor.claim_one(worker).await;
    end(&floor, &[succeeded(key, attempt(&second))]).await.expect("ended");
    let foreign = Attempt { token: first.lease.token, ..attempt(&second) };
    let mut client = floor.cell.store.client("look").await.expect("connected");
    let tx = client.begin("look").await.expect("begun");
    let found =
        run_outcome::recorded(&tx, &[(key, attempt(&first)), (key, attempt(&second))]).await.expect("found");
    assert_eq!(found.get(&(key, 1)), Some(&State::Failed));
    assert_eq!(found.get(&(key, 2)), Some(&State::Succeeded));
    assert!(run_outcome::recorded(&tx, &[(key, foreign)]).await.expect("looked").is_empty());
}

/// One row that can't be written spoils the whole group, and the error says that splitting helps.
#[tokio::test]
async fn a_bad_row_fails_its_group_as_one_to_be_split() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    for _ in 0..2 {
        floor.due(floor.job().await, 1, true).await;
    }
    let taken = floor.claim(worker, 2).await.assignments;
    let good = succeeded(taken[0].lease.key, attempt(&taken[0]));
    let mut bad = succeeded(taken[1].lease.key, attempt(&taken[1]));
    bad.reason = Some(Reason::WorkFailed); // success has no reason
    let error = end(&floor, &[good.clone(), bad]).await.expect_err("the check refuses it");
    assert_eq!(error.retry(), store::Retry::Split);
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run WHERE state <> 'PLANNED'").await, 0);
    assert_eq!(end(&floor, &[good]).await.expect("the good one"), 1);
}

async fn reap(floor: &Floor, seen: Seen) -> usize {
    let mut client = floor.cell.store.client("reap").await.expect("connected");
    let tx = client.begin("reap").await.expect("begun");
    let ended = worker_session::end(&tx, &[seen]).await.expect("looked");
    tx.commit().await.expect("committed");
    ended.len()
}

#[tokio::test]
async fn a_reap_that_waits_for_a_resume_leaves_the_session_alone() {
    let floor = Floor::create().await;
    let (worker, other) = (floor.worker().await, floor.cell.connect().await);
    let seen = Seen { session: worker, dispatcher: floor.dispatcher, connection: 1 };
    other.batch_execute("BEGIN").await.expect("begun");
    let lock = "SELECT id FROM worker_session WHERE id = $1 FOR UPDATE";
    other.query_one(lock, &[&worker.0]).await.expect("locked");
    let resume = "UPDATE worker_session SET connection = 2, dispatcher_id = gen_random_uuid() WHERE id = $1";
    other.execute(resume, &[&worker.0]).await.expect("resumed");
    let meanwhile = async {
        floor.someone_waits().await;
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let (ended, ()) = tokio::join!(reap(&floor, seen), meanwhile);
    assert_eq!(ended, 0);
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM worker_session WHERE ended_at IS NULL").await, 1);
}

#[tokio::test]
async fn a_session_that_was_reaped_is_not_resumed() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let seen = Seen { session: worker, dispatcher: floor.dispatcher, connection: 1 };
    assert_eq!(reap(&floor, Seen { connection: 2, ..seen }).await, 0, "not as it was seen");
    assert_eq!(
        reap(&floor, Seen { dispatcher: DispatcherId::random(), ..seen }).await,
        0,
        "not with that one"
    );
    assert_eq!(reap(&floor, seen).await, 1);
    assert_eq!(reap(&floor, seen).await, 0, "once");
    let resumed =
        worker_session::resume(&floor.cell.store, worker, floor.dispatcher, &handing::worker(), 2).await;
    assert_eq!(resumed.expect("asked"), Resumed::Gone);
}

#[tokio::test]
async fn another_tenants_worker_does_not_resume_a_session() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let foreign = worker_session::Worker { tenant: Some(model::ids::TenantId::DEFAULT), ..handing::worker() };
    let resumed = worker_session::resume(&floor.cell.store, worker, floor.dispatcher, &foreign, 2).await;
    assert_eq!(resumed.expect("asked"), Resumed::Gone);
}

#[tokio::test]
async fn a_session_is_resumed_twice_and_not_again_before_its_worker_was_heard() {
    let floor = Floor::create().await;
    let (worker, store) = (floor.worker().await, &floor.cell.store);
    let resume = async || {
        let itself = handing::worker();
        worker_session::resume(store, worker, floor.dispatcher, &itself, 2).await.expect("asked")
    };
    assert_eq!((resume().await, resume().await), (Resumed::Taken(2), Resumed::Taken(3)));
    assert_eq!(resume().await, Resumed::Deaf);
    worker_session::heard(store, worker, 2).await.expect("noted");
    assert_eq!(resume().await, Resumed::Deaf, "an older connection proves nothing");
    worker_session::heard(store, worker, 3).await.expect("noted");
    assert_eq!(resume().await, Resumed::Taken(4));
}
