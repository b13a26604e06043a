//! Cancelling open runs, and running ended ones again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use handing::{Floor, attempt};
use model::ids::{JobId, RunKey};
use model::policy::OverlapPolicy::{Forbid, Queue};
use model::run::{Reason, State};
use std::time::Duration;
use store::run_cancel::{self, Cancelled};
use store::run_end::End;
use store::run_lease::assignment::Assignment;
use store::run_outcome;
use store::run_rerun::{self, Rerun};

async fn cancel(floor: &Floor, key: RunKey) -> Cancelled {
    let mut client = floor.cell.store.client("cancel").await.expect("connected");
    let tx = client.begin("cancel").await.expect("begun");
    let cancelled = run_cancel::cancel(&tx, key, Reason::Requested).await.expect("answered");
    tx.commit().await.expect("committed");
    cancelled
}

async fn rerun(floor: &Floor, key: RunKey) -> Rerun {
    let at = floor.one("SELECT esc_now()").await;
    let mut client = floor.cell.store.client("rerun").await.expect("connected");
    let tx = client.begin("rerun").await.expect("begun");
    let rerun = run_rerun::rerun(&tx, key, at).await.expect("answered");
    tx.commit().await.expect("committed");
    rerun
}

async fn fail(floor: &Floor, assignment: &Assignment) {
    let end = End {
        key: assignment.lease.key,
        attempt: Some(attempt(assignment)),
        state: State::Failed,
        reason: Some(Reason::WorkFailed),
        output: None,
    };
    assert_eq!(floor.end(end).await, 1);
}

/// The attempts that did not end the run, as its history shows them.
async fn attempts(floor: &Floor, key: RunKey) -> Vec<(i32, String)> {
    let tenant = model::ids::TenantId::DEFAULT.0;
    let text = include_str!("../sql/history/attempts.sql");
    let rows = floor.side.query(text, &[&tenant, &key.job_id.0, &key.scheduled_for]).await.expect("history");
    rows.iter().map(|row| (row.get("attempt"), row.get("state"))).collect()
}

#[tokio::test]
async fn what_no_worker_has_ends_at_once() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let planned = floor.due(floor.job().await, -30, true).await;
    assert_eq!(cancel(&floor, planned).await, Cancelled::Ended);
    let waiting = floor.due(floor.job().await, 3, true).await;
    assert_eq!(cancel(&floor, waiting).await, Cancelled::Ended);

    floor.due(floor.job().await, 3, true).await;
    let retrying = floor.claim_one(worker).await;
    floor.fail(&retrying, Duration::from_secs(3_600)).await;
    assert_eq!(cancel(&floor, retrying.lease.key).await, Cancelled::Ended);

    let job = floor.job().await;
    floor.due_with(job, 9, Queue).await;
    floor.claim_one(worker).await;
    let parked = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    floor.park(&claimed.parking).await;
    assert_eq!(cancel(&floor, parked).await, Cancelled::Ended);

    for key in [planned, waiting, retrying.lease.key, parked] {
        assert_eq!(floor.state(key).await, "CANCELLED(REQUESTED)");
        assert_eq!(cancel(&floor, key).await, Cancelled::NotOpen, "it has ended");
    }
    let left = "SELECT (SELECT count(*) FROM run_queue) + (SELECT count(*) FROM run_parked) + (SELECT count(*) FROM run_lease)";
    assert_eq!(floor.one::<i64>(left).await, 1, "the run that the parked one waited for");
    let never = RunKey::new(JobId::random(), floor.start);
    assert_eq!(cancel(&floor, never).await, Cancelled::NotOpen);
}

#[tokio::test]
async fn a_worker_is_asked_and_the_first_reason_stays() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    floor.due(floor.job().await, 3, true).await;
    let running = floor.claim_one(worker).await;
    assert_eq!(cancel(&floor, running.lease.key).await, Cancelled::Requested);
    let mut client = floor.cell.store.client("cancel").await.expect("connected");
    let tx = client.begin("cancel").await.expect("begun");
    let again = run_cancel::cancel(&tx, running.lease.key, Reason::Replaced).await.expect("answered");
    tx.commit().await.expect("committed");
    assert_eq!(again, Cancelled::Requested);
    let pending = run_cancel::pending(&floor.cell.store, floor.dispatcher).await.expect("looked");
    assert_eq!(pending.len(), 1);
    assert_eq!(
        (pending[0].session, pending[0].key, pending[0].token, pending[0].reason),
        (worker, running.lease.key, running.lease.token, Reason::Requested)
    );
    let elsewhere = run_cancel::pending(&floor.cell.store, model::ids::DispatcherId::random()).await;
    assert_eq!(elsewhere.expect("looked"), []);
    floor.succeed(&running).await;
    assert_eq!(run_cancel::pending(&floor.cell.store, floor.dispatcher).await.expect("looked"), []);
}

/// The claim has taken the run and not committed: the cancellation waits, and then finds a worker to ask.
#[tokio::test]
async fn a_cancellation_that_waited_for_a_claim_asks_the_worker() {
    let floor = Floor::create().await;
    let (worker, other) = (floor.worker().await, floor.cell.connect().await);
    let key = floor.due(floor.job().await, 3, true).await;
    other.batch_execute("BEGIN").await.expect("begun");
    let sql = "WITH row AS (DELETE FROM run_queue RETURNING *)
        INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
            undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
        SELECT job_id, tenant_id, $1, gen_random_uuid(), scheduled_for, esc_now(), 1, 1, 0, 0, 0, 0, 1, 1, origin, exclusive, queue
        FROM row";
    assert_eq!(other.execute(sql, &[&worker.0]).await.expect("taken"), 1);
    let meanwhile = async {
        floor.someone_waits().await;
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let (cancelled, ()) = tokio::join!(cancel(&floor, key), meanwhile);
    assert_eq!(cancelled, Cancelled::Requested);
    assert_eq!(floor.state(key).await, "PLANNED");
}

#[tokio::test]
async fn a_succeeded_run_runs_again_and_its_success_stays_on_record() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let key = floor.due(floor.job().await, 3, true).await;
    let first = floor.claim_one(worker).await;
    let accept =
        "WITH a AS (UPDATE run_lease SET accepted_at = esc_now() RETURNING 1) SELECT count(*) FROM a";
    assert_eq!(floor.one::<i64>(accept).await, 1);
    floor.succeed(&first).await;
    let accepted = "SELECT count(accepted_at) FROM run";
    assert_eq!(floor.one::<i64>(accepted).await, 1);
    assert_eq!(rerun(&floor, key).await, Rerun::Queued { attempt: 2 });
    assert_eq!(floor.one::<i64>(accepted).await, 0, "or it would seem accepted before it was due");
    assert_eq!(rerun(&floor, key).await, Rerun::NotEnded);
    let mut client = floor.cell.store.client("look").await.expect("connected");
    let tx = client.begin("look").await.expect("begun");
    let reported = run_outcome::recorded(&tx, &[(key, attempt(&first))]).await.expect("looked");
    assert_eq!(reported.get(&(key, 1)), Some(&State::Succeeded), "a report sent again is still recorded");
    drop(tx);
    let second = floor.claim_one(worker).await;
    assert_eq!((second.lease.key, second.lease.attempt, second.lease.spent.failed), (key, 2, 0));
    assert!(second.lease.token > first.lease.token);
    fail(&floor, &second).await;
    assert_eq!(floor.state(key).await, "FAILED(WORK_FAILED)");
    assert_eq!(attempts(&floor, key).await, [(1, "SUCCEEDED".to_owned())]);
    assert_eq!(rerun(&floor, key).await, Rerun::Queued { attempt: 3 });
    floor.succeed(&floor.claim_one(worker).await).await;
    assert_eq!(floor.state(key).await, "SUCCEEDED");
    let both = [(1, "SUCCEEDED".to_owned()), (2, "FAILED".to_owned())];
    assert_eq!(attempts(&floor, key).await, both);
}

/// It was skipped for an overlap: run again, it starts, and no overlap skips it any more.
#[tokio::test]
async fn a_run_that_never_started_runs_for_the_first_time() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 9, true).await;
    let open = floor.claim_one(worker).await;
    let skipped = floor.due(job, 8, true).await;
    assert_eq!(floor.claim(worker, 1).await.skipped, 1);
    assert_eq!(rerun(&floor, skipped).await, Rerun::Blocked { by: open.lease.key });
    floor.succeed(&open).await;
    assert_eq!(rerun(&floor, skipped).await, Rerun::Queued { attempt: 1 });
    let other = floor.due(job, 7, true).await;
    let claimed = floor.claim(worker, 1).await;
    assert_eq!(claimed.assignments[0].lease.key, other, "it was due before");
    assert_eq!(floor.claim(worker, 1).await.parking, [skipped]);
    assert_eq!(
        cancel(&floor, skipped).await,
        Cancelled::Ended,
        "it can end a second time without an attempt"
    );
    assert_eq!(floor.state(skipped).await, "CANCELLED(REQUESTED)");
    floor.succeed(&claimed.assignments[0]).await;
    assert_eq!(rerun(&floor, skipped).await, Rerun::Queued { attempt: 1 });
    let taken = floor.claim_one(worker).await;
    assert_eq!((taken.lease.key, taken.lease.attempt), (skipped, 1));
}

/// A cancelled retry of a run that is run again has the number of an attempt that ended before.
#[tokio::test]
async fn a_rerun_can_be_cancelled_before_it_starts() {
    let floor = Floor::create().await;
    let worker = floor.worker().await;
    let key = floor.due(floor.job().await, 3, true).await;
    fail(&floor, &floor.claim_one(worker).await).await;
    assert_eq!(rerun(&floor, key).await, Rerun::Queued { attempt: 2 });
    assert_eq!(cancel(&floor, key).await, Cancelled::Ended);
    assert_eq!(floor.state(key).await, "CANCELLED(REQUESTED)");
    assert_eq!(attempts(&floor, key).await, [(1, "FAILED".to_owned())]);
    assert_eq!(rerun(&floor, key).await, Rerun::Queued { attempt: 2 });
    assert_eq!(floor.claim_one(worker).await.lease.attempt, 2);
}

/// A claim that has opened another run of the job and not committed yet: the rerun waits and then is refused.
#[tokio::test]
async fn a_rerun_that_meets_a_claim_is_refused() {
    let floor = Floor::create().await;
    let (job, worker, other) = (floor.job().await, floor.worker().await, floor.cell.connect().await);
    let key = floor.due_with(job, 9, Forbid).await;
    floor.succeed(&floor.claim_one(worker).await).await;
    let newer = floor.due_with(job, 3, Forbid).await;
    other.batch_execute("BEGIN").await.expect("begun");
    let sql = "WITH row AS (DELETE FROM run_queue RETURNING *)
        INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
            undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
        SELECT job_id, tenant_id, $1, gen_random_uuid(), scheduled_for, esc_now(), 1, 1, 0, 0, 0, 0, 1, 1, origin, exclusive, queue
        FROM row";
    other.execute(sql, &[&worker.0]).await.expect("taken");
    let meanwhile = async {
        floor.someone_waits().await;
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let (refused, ()) = tokio::join!(rerun(&floor, key), meanwhile);
    assert_eq!(refused, Rerun::Blocked { by: newer });
    assert_eq!(floor.state(key).await, "SUCCEEDED");
    assert_eq!(rerun(&floor, RunKey::new(JobId::random(), floor.start)).await, Rerun::NoRun);
}
