//! What a claim takes, and what it must not.

mod handing;
mod support;

use handing::Floor;
use model::ids::RunKey;
use std::collections::BTreeSet;

#[tokio::test]
async fn a_due_run_is_taken_once_and_its_lease_has_a_token() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    let key = floor.due(job, 1, true).await;
    let taken = floor.claim_one(worker).await;
    assert_eq!((taken.lease.key, taken.lease.attempt, taken.lease.token.epoch()), (key, 1, 1));
    assert!(floor.claim(worker, 1).await.assignments.is_empty());
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 0);
}

#[tokio::test]
async fn two_claimers_never_take_one_row() {
    let floor = Floor::create().await;
    let (one, other) = (floor.worker().await, floor.worker().await);
    let mut due = BTreeSet::new();
    for _ in 0..200 {
        due.insert(floor.due(floor.job().await, 1, true).await);
    }
    let keys = |claimed: store::run_queue::Claimed| -> Vec<RunKey> {
        claimed.assignments.iter().map(|assignment| assignment.lease.key).collect()
    };
    let mut taken = Vec::new();
    for _ in 0..4 {
        let (first, second) = tokio::join!(floor.claim(one, 50), floor.claim(other, 50));
        taken.extend(keys(first));
        taken.extend(keys(second));
    }
    assert_eq!(taken.len(), 200);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), due);
}

#[tokio::test]
async fn an_occurrence_that_meets_an_open_run_of_its_job_is_skipped_and_says_so() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 3, true).await;
    floor.due(job, 2, true).await;
    let claimed = floor.claim(worker, 10).await;
    assert_eq!((claimed.assignments.len(), claimed.skipped), (1, 1));
    floor.due(job, 1, true).await;
    assert_eq!(floor.claim(worker, 10).await.skipped, 1);
    let ended = "SELECT count(*) FROM run r JOIN run_outcome o USING (job_id, scheduled_for) \
        WHERE r.state = 'SKIPPED' AND o.reason = 'OVERLAP' AND o.final AND r.finished_at IS NOT NULL";
    assert_eq!(floor.one::<i64>(ended).await, 2);
}

#[tokio::test]
async fn what_may_not_be_skipped_is_put_off_and_hides_nothing() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 9, true).await;
    floor.claim_one(worker).await;
    floor.queued(job, 8, true, "CATCH_UP", false).await;
    floor.queued(job, 7, true, "SCHEDULE", true).await;
    let free = floor.due(floor.job().await, 1, true).await;
    let claimed = floor.claim(worker, 2).await;
    assert_eq!((claimed.assignments.len(), claimed.postponed), (0, 2));
    assert_eq!(floor.claim_one(worker).await.lease.key, free);
    let put_off = "SELECT count(*) FROM run_queue WHERE due_at > esc_now()";
    assert_eq!(floor.one::<i64>(put_off).await, 2);
}

#[tokio::test]
async fn runs_that_do_not_exclude_each_other_start_side_by_side() {
    let floor = Floor::create().await;
    let (job, worker) = (floor.job().await, floor.worker().await);
    floor.due(job, 3, false).await;
    floor.due(job, 2, false).await;
    assert_eq!(floor.claim(worker, 10).await.assignments.len(), 2);
    // The job's policy has changed since: an exclusive run waits for the others too.
    floor.due(job, 1, true).await;
    assert_eq!(floor.claim(worker, 10).await.skipped, 1);
}
