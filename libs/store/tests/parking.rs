//! Runs that wait aside for an earlier one of their job, and what wakes, displaces and replaces them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use handing::{Floor, attempt};
use model::ids::RunKey;
use model::policy::OverlapPolicy::{Forbid, Queue, Replace};
use model::run::State;
use std::collections::BTreeSet;
use std::time::Duration;
use store::run_end::End;
use store::run_lease::assignment::Assignment;
use store::{run_end, run_parked};

const PARKED: &str = "SELECT count(*) FROM run_parked";

/// What waits parked.
async fn parked(floor: &Floor) -> Vec<chrono::DateTime<chrono::Utc>> {
    let rows = floor.side.query("SELECT scheduled_for FROM run_parked", &[]).await.expect("looked");
    rows.iter().map(|row| row.get(0)).collect()
}

fn success(assignment: &Assignment) -> End {
    End {
        key: assignment.lease.key,
        attempt: Some(attempt(assignment)),
        state: State::Succeeded,
        reason: None,
        output: None,
    }
}

#[tokio::test]
async fn of_the_runs_that_wait_the_newest_does_and_starts_with_a_higher_token() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    let open = floor.claim_one(worker).await;
    let (one, two) = (floor.due_with(job, 4, Queue).await, floor.due_with(job, 3, Queue).await);
    let claimed = floor.claim(worker, 10).await;
    let did = floor.park(&claimed.parking).await;
    assert_eq!((did.parked, did.superseded), (BTreeSet::from([two]), BTreeSet::from([one])));
    let three = floor.due_with(job, 2, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!(floor.park(&claimed.parking).await.superseded, BTreeSet::from([two]));
    assert_eq!(parked(&floor).await, [three.scheduled_for]);
    assert_eq!(floor.state(one).await, "SKIPPED(SUPERSEDED)");
    assert_eq!(floor.state(two).await, "SKIPPED(SUPERSEDED)");
    assert!(floor.claim(worker, 10).await.assignments.is_empty());
    floor.succeed(&open).await;
    let next = floor.claim_one(worker).await;
    assert_eq!(next.lease.key, three);
    assert!(next.lease.token > open.lease.token);
    assert_eq!(floor.one::<i64>(PARKED).await, 0);
}

/// The requested stop is recorded before anybody is told, and once.
#[tokio::test]
async fn a_replaced_run_is_asked_to_stop_once_and_the_newer_one_waits_for_its_end() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Replace).await;
    let open = floor.claim_one(worker).await;
    floor.due_with(job, 4, Replace).await;
    let claimed = floor.claim(worker, 10).await;
    let did = floor.park(&claimed.parking).await;
    assert_eq!(did.replacing.len(), 1);
    let pending = store::run_cancel::pending(&floor.cell.store, floor.dispatcher).await.expect("looked");
    assert_eq!(pending, did.replacing, "the dispatcher of the session finds it, whoever asked");
    let newest = floor.due_with(job, 3, Replace).await;
    let claimed = floor.claim(worker, 10).await;
    let again = floor.park(&claimed.parking).await;
    assert_eq!((again.replacing.len(), again.superseded.len()), (0, 1));
    assert!(floor.claim(worker, 10).await.assignments.is_empty());
    floor.succeed(&open).await;
    assert_eq!(floor.state(open.lease.key).await, "SUCCEEDED", "it was done before it stopped");
    assert_eq!(floor.claim_one(worker).await.lease.key, newest);
}

#[tokio::test]
async fn a_run_that_waits_for_its_retry_is_replaced_at_once() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Replace).await;
    let open = floor.claim_one(worker).await;
    floor.fail(&open, Duration::from_secs(3_600)).await;
    let newer = floor.due_with(job, 3, Replace).await;
    let claimed = floor.claim(worker, 10).await;
    let did = floor.park(&claimed.parking).await;
    assert!(did.due && did.replacing.is_empty());
    assert_eq!(floor.state(open.lease.key).await, "CANCELLED(REPLACED)");
    let next = floor.claim_one(worker).await;
    assert_eq!(next.lease.key, newer);
    assert!(next.lease.token > open.lease.token);
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 0, "no retry is left");
}

/// A trigger that was asked to wait: occurrences of the schedule are skipped meanwhile, it is not.
#[tokio::test]
async fn a_trigger_that_waits_runs_after_the_open_run() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 9, true).await;
    let open = floor.claim_one(worker).await;
    let manual = floor.queued_with(job, 3, Forbid, "MANUAL", false).await;
    let scheduled = floor.due(job, 2, true).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.skipped, claimed.parking.as_slice()), (1, [manual].as_slice()));
    assert_eq!(floor.park(&claimed.parking).await.parked, BTreeSet::from([manual]));
    assert_eq!(floor.state(scheduled).await, "SKIPPED(OVERLAP)");
    floor.succeed(&open).await;
    assert_eq!(floor.claim_one(worker).await.lease.key, manual);
}

/// Nothing was lost when whoever claimed them died before parking them: the next claim names them again.
#[tokio::test]
async fn runs_that_were_put_off_and_not_parked_come_again() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    floor.claim_one(worker).await;
    let waiting = floor.due_with(job, 3, Queue).await;
    assert_eq!(floor.claim(worker, 10).await.parking, [waiting]);
    assert_eq!(floor.claim(worker, 10).await.parking, [], "put off");
    floor.put_off_is_over().await;
    assert_eq!(floor.claim(worker, 10).await.parking, [waiting]);
}

/// The finisher is faster: it has freed the lease and not committed yet when somebody wants to park behind it.
#[tokio::test]
async fn parking_that_waited_for_an_end_leaves_the_run_due_at_once() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    let open = floor.claim_one(worker).await;
    let waiting = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    let mut client = floor.cell.store.client("end").await.expect("connected");
    let tx = client.begin("end").await.expect("begun");
    assert_eq!(run_end::end(&tx, &[success(&open)]).await.expect("ended").len(), 1);
    let meanwhile = async {
        floor.someone_waits().await;
        tx.commit().await.expect("committed");
    };
    let (did, ()) = tokio::join!(floor.park(&claimed.parking), meanwhile);
    assert!(did.due && did.parked.is_empty());
    assert_eq!(floor.claim_one(worker).await.lease.key, waiting);
}

/// The other order: the finisher waits for whoever parks, and then wakes what was parked.
#[tokio::test]
async fn an_end_that_waited_for_a_parking_wakes_the_parked_run() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    let open = floor.claim_one(worker).await;
    let waiting = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    let mut client = floor.cell.store.client("park").await.expect("connected");
    let tx = client.begin("park").await.expect("begun");
    assert_eq!(run_parked::park(&tx, &claimed.parking).await.expect("parked").parked.len(), 1);
    let meanwhile = async {
        floor.someone_waits().await;
        tx.commit().await.expect("committed");
    };
    tokio::join!(floor.succeed(&open), meanwhile);
    assert_eq!(floor.one::<i64>(PARKED).await, 0);
    assert_eq!(floor.claim_one(worker).await.lease.key, waiting);
}

/// The end comes to the lease first, and whoever parks has to wait there: with the parked row in its hand already, each would
/// wait for what the other holds.
#[tokio::test]
async fn an_end_and_a_parking_that_meet_at_the_lease_do_not_deadlock_over_the_parked_row() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    let open = floor.claim_one(worker).await;
    let older = floor.due_with(job, 4, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!(floor.park(&claimed.parking).await.parked, BTreeSet::from([older]));
    let newer = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!(claimed.parking, [newer]);

    let between = floor.cell.connect().await;
    between.batch_execute("BEGIN; SELECT FROM run_lease FOR UPDATE").await.expect("held");
    let second = async {
        floor.so_many_wait(1).await;
        let (did, ()) = tokio::join!(floor.park(&claimed.parking), async {
            floor.so_many_wait(2).await;
            between.batch_execute("COMMIT").await.expect("let go");
        });
        did
    };
    let ((), did) = tokio::join!(floor.succeed(&open), second);
    assert!(did.due && did.parked.is_empty(), "the end was first, and woke the older one");
    assert_eq!(floor.one::<i64>(PARKED).await, 0);
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 2);
}

/// Two dispatchers have each put off a run of one job; whichever parks first, the newer one waits and the older ends.
#[tokio::test]
async fn of_two_that_park_for_one_job_at_once_the_newer_run_waits() {
    let floor = Floor::create().await;
    for older_first in [true, false] {
        let (job, worker) = (floor.job().await, floor.worker().await);
        floor.due_with(job, 9, Queue).await;
        floor.claim_one(worker).await;
        let (older, newer) = (floor.due_with(job, 4, Queue).await, floor.due_with(job, 3, Queue).await);
        assert_eq!(floor.claim(worker, 10).await.parking.len(), 2);
        let (first, then): (RunKey, RunKey) = if older_first { (older, newer) } else { (newer, older) };
        let mut client = floor.cell.store.client("park").await.expect("connected");
        let tx = client.begin("park").await.expect("begun");
        assert_eq!(run_parked::park(&tx, &[first]).await.expect("parked").parked, BTreeSet::from([first]));
        let meanwhile = async {
            floor.someone_waits().await;
            tx.commit().await.expect("committed");
        };
        let then = [then];
        let (did, ()) = tokio::join!(floor.park(&then), meanwhile);
        assert_eq!(did.superseded, BTreeSet::from([older]), "{older_first}");
        assert_eq!(floor.state(older).await, "SKIPPED(SUPERSEDED)");
        assert_eq!(floor.state(newer).await, "PLANNED");
        assert_eq!(parked(&floor).await, [newer.scheduled_for]);
        floor.side.batch_execute("TRUNCATE run_queue, run_lease, run_parked").await.expect("emptied");
    }
}

/// Two runs of a job, from before it became exclusive, end at once: one of the two ends wakes what waits for both.
#[tokio::test]
async fn the_last_of_several_open_runs_wakes_what_waits() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 9, false).await;
    floor.due(job, 8, false).await;
    let open = floor.claim(worker, 2).await.assignments;
    let waiting = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    floor.park(&claimed.parking).await;
    let mut client = floor.cell.store.client("end").await.expect("connected");
    let tx = client.begin("end").await.expect("begun");
    assert_eq!(run_end::end(&tx, &[success(&open[0])]).await.expect("ended").len(), 1);
    let meanwhile = async {
        floor.someone_waits().await;
        tx.commit().await.expect("committed");
    };
    tokio::join!(floor.succeed(&open[1]), meanwhile);
    assert_eq!(floor.claim_one(worker).await.lease.key, waiting);
}

#[tokio::test]
async fn a_parked_run_that_nothing_stands_in_the_way_of_is_found() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    floor.claim_one(worker).await;
    let waiting = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    floor.park(&claimed.parking).await;
    assert_eq!(run_parked::sweep(&floor.cell.store).await.expect("swept"), []);
    floor.side.batch_execute("TRUNCATE run_lease").await.expect("gone, and nobody woke it");
    assert_eq!(run_parked::sweep(&floor.cell.store).await.expect("swept"), [waiting]);
    assert_eq!(floor.claim_one(worker).await.lease.key, waiting);
}

/// Of a paused job what runs goes on; what would follow it is held: the retry as well as the run that waits.
#[tokio::test]
async fn what_follows_an_attempt_of_a_paused_job_is_held() {
    let floor = Floor::create().await;
    let (retrying, waiting, worker) = (floor.job().await, floor.job().await, floor.worker().await);
    floor.due_with(retrying, 9, Queue).await;
    let failing = floor.claim_one(worker).await;
    floor.due_with(waiting, 9, Queue).await;
    let open = floor.claim_one(worker).await;
    floor.due_with(waiting, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    floor.park(&claimed.parking).await;
    floor.side.execute("UPDATE job SET paused_at = esc_now()", &[]).await.expect("paused");
    floor.fail(&failing, Duration::ZERO).await;
    floor.succeed(&open).await;
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue WHERE due_at = 'infinity'").await, 2);
    assert!(!floor.claim(worker, 10).await.moved());
    let stranded = store::run_lease::stranded(&floor.cell.store).await.expect("looked");
    assert_eq!(stranded, [], "held is not stranded");
}

/// A parked run is waiting, for whoever looks at the queue or at the run.
#[tokio::test]
async fn a_parked_run_counts_as_waiting() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due_with(job, 9, Queue).await;
    floor.claim_one(worker).await;
    let waiting = floor.due_with(job, 3, Queue).await;
    let claimed = floor.claim(worker, 10).await;
    floor.park(&claimed.parking).await;
    let status = include_str!("../sql/status/queue.sql");
    let queue = floor.side.query_one(status, &[&model::ids::TenantId::DEFAULT.0]).await.expect("a queue");
    assert_eq!((queue.get::<_, i64>("waiting"), queue.get::<_, i64>("running")), (1, 1));
    let phase = "SELECT phase FROM run_phase WHERE job_id = $1 AND scheduled_for = $2";
    let row = floor.side.query_one(phase, &[&job.0, &waiting.scheduled_for]).await.expect("a run");
    assert_eq!(row.get::<_, String>("phase"), "WAITING");
}
