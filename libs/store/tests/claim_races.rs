//! Claims that meet other transactions half way, each interleaving forced by a lock.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod handing;
mod support;

use handing::Floor;
use model::ids::RunKey;
use store::worker_session::Resumed;

/// Another claimer's transaction has taken the older of two due runs of an exclusive job and has not committed.
async fn another_claims(other: &tokio_postgres::Client, key: RunKey) {
    other.batch_execute("BEGIN").await.expect("begun");
    let sql = "WITH row AS (DELETE FROM run_queue WHERE job_id = $1 AND scheduled_for = $2 RETURNING *)
        INSERT INTO run_lease (job_id, tenant_id, claim_id, scheduled_for, claimed_at, generation, token, priority, undelivered,
            lost, failed, attempt, connection, origin, exclusive, queue)
        SELECT job_id, tenant_id, gen_random_uuid(), scheduled_for, esc_now(), 1, 1, 0, 0, 0, 0, 1, 1, origin, exclusive, queue
        FROM row";
    let taken = other.execute(sql, &[&key.job_id.0, &key.scheduled_for]).await.expect("taken");
    assert_eq!(taken, 1);
}

/// The claim that drew its tokens first and then waited gave an older token to a newer lease.
#[tokio::test]
async fn a_claim_that_had_to_wait_draws_its_token_after_the_wait() {
    let floor = Floor::create().await;
    let (job, worker, other) = (floor.job().await, floor.worker().await, floor.cell.connect().await);
    let older = floor.due(job, 2, true).await;
    let newer = floor.due(job, 1, true).await;
    another_claims(&other, older).await;
    let meanwhile = async {
        floor.someone_waits().await;
        let drawn =
            other.query_one("SELECT nextval('token_seq')", &[]).await.expect("drawn").get::<_, i64>(0);
        other.batch_execute("ROLLBACK").await.expect("rolled back");
        (1 << 44) | drawn
    };
    let (claimed, theirs) = tokio::join!(floor.claim(worker, 1), meanwhile);
    assert_eq!(claimed.assignments.len(), 1, "{claimed:?}");
    let ours = &claimed.assignments[0].lease;
    assert_eq!(ours.key, newer);
    assert!(ours.token.as_i64() > theirs, "{} was drawn before {theirs}", ours.token);
}

#[tokio::test]
async fn a_claim_that_waited_for_a_lease_that_stays_skips_the_occurrence() {
    let floor = Floor::create().await;
    let (job, worker, other) = (floor.job().await, floor.worker().await, floor.cell.connect().await);
    let older = floor.due(job, 2, true).await;
    floor.due(job, 1, true).await;
    another_claims(&other, older).await;
    let meanwhile = async {
        floor.someone_waits().await;
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let (claimed, ()) = tokio::join!(floor.claim(worker, 1), meanwhile);
    assert_eq!((claimed.assignments.len(), claimed.skipped), (0, 1));
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_lease").await, 1);
}

/// ON CONFLICT DO NOTHING waits for the other claimer's whole transaction: not longer than the lock's limit.
#[tokio::test]
async fn a_claim_does_not_wait_for_ever_for_another_ones_transaction() {
    let floor = Floor::create().await;
    let (job, worker, other) = (floor.job().await, floor.worker().await, floor.cell.connect().await);
    let older = floor.due(job, 2, true).await;
    floor.due(job, 1, true).await;
    another_claims(&other, older).await;
    let mut settings = floor.cell.settings();
    settings.lock_timeout = std::time::Duration::from_millis(200);
    let impatient = store::Store::new(settings).expect("sound settings");
    let error = store::run_queue::claim(&impatient, &floor.request(worker, 1)).await.expect_err("blocked");
    assert_eq!(error.retry(), store::Retry::Later, "{error}");
    other.batch_execute("ROLLBACK").await.expect("rolled back");
    assert_eq!(
        floor.claim(worker, 2).await.assignments.len(),
        1,
        "one starts, as the runs exclude each other"
    );
}

/// An ORDER BY around the LATERAL part would lock every due row in order to return a few.
#[tokio::test]
async fn a_claim_locks_no_more_rows_than_it_takes() {
    let floor = Floor::create().await;
    let (job, worker, other) = (floor.job().await, floor.worker().await, floor.cell.connect().await);
    for ago in 1..=50 {
        floor.due(job, ago, false).await;
    }
    let request = floor.request(worker, 3);
    let slots = vec![worker.0; 3];
    let (nobody, everybody) = (vec![uuid::Uuid::nil()], vec![uuid::Uuid::max()]);
    let (resuming, credit) = (None::<uuid::Uuid>, None::<i64>);
    other.batch_execute("BEGIN").await.expect("begun");
    let serve = include_str!("../sql/tenant/serve.sql");
    other.query(serve, &[&nobody, &everybody, &request.queues, &request.floor]).await.expect("chosen");
    other
        .query(
            include_str!("../sql/run_queue/claim.sql"),
            &[
                &slots,
                &vec![1; 3],
                &floor.dispatcher.0,
                &request.claim.0,
                &request.queues,
                &request.floor,
                &request.quantum,
                &resuming,
                &credit,
                &request.latest,
            ],
        )
        .await
        .expect("claimed");
    let free = "SELECT count(*) FROM (SELECT FROM run_queue FOR UPDATE SKIP LOCKED) free";
    assert_eq!(floor.one::<i64>(free).await, 47);
}

/// A worker that resumes elsewhere while a claim takes runs for its old connection: the claim finds that out.
#[tokio::test]
async fn a_claim_that_waits_for_a_resume_takes_nothing_for_the_old_connection() {
    let floor = Floor::create().await;
    let (worker, other) = (floor.worker().await, floor.cell.connect().await);
    floor.due(floor.job().await, 1, true).await;
    other.batch_execute("BEGIN").await.expect("begun");
    let lock = "SELECT id FROM worker_session WHERE id = $1 FOR UPDATE";
    other.query_one(lock, &[&worker.0]).await.expect("locked");
    let resume = "UPDATE worker_session SET connection = 2 WHERE id = $1";
    other.execute(resume, &[&worker.0]).await.expect("resumed");
    let meanwhile = async {
        floor.someone_waits().await;
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let (claimed, ()) = tokio::join!(floor.claim(worker, 1), meanwhile);
    assert!(claimed.identified && !claimed.moved(), "{claimed:?}");
    assert_eq!(floor.one::<i64>("SELECT count(*) FROM run_queue").await, 1);
}

/// The other order: the resume waits for the claim, and then sees its lease.
#[tokio::test]
async fn a_resume_that_waits_for_a_claim_takes_its_lease_along() {
    let floor = Floor::create().await;
    let (worker, other) = (floor.worker().await, floor.cell.connect().await);
    let key = floor.due(floor.job().await, 1, true).await;
    other.batch_execute("BEGIN").await.expect("begun");
    let hold = "SELECT id FROM worker_session WHERE id = $1 FOR SHARE";
    other.query_one(hold, &[&worker.0]).await.expect("held");
    let meanwhile = async {
        floor.someone_waits().await;
        let sql = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token,
                priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
            SELECT job_id, tenant_id, $1, gen_random_uuid(), scheduled_for, esc_now(), 1, 1, 0, 0, 0, 0, 1, 1, origin, exclusive, queue
            FROM run_queue";
        other.execute(sql, &[&worker.0]).await.expect("leased");
        other.batch_execute("COMMIT").await.expect("committed");
    };
    let itself = handing::worker();
    let resume = store::worker_session::resume(&floor.cell.store, worker, floor.dispatcher, &itself, 2);
    let (resumed, ()) = tokio::join!(resume, meanwhile);
    assert_eq!(resumed.expect("resumed"), Resumed::Taken(2));
    let leases = store::run_lease::of_sessions(&floor.cell.store, &[worker], std::time::Duration::ZERO)
        .await
        .expect("leases");
    assert_eq!(leases.len(), 1);
    assert_eq!((leases[0].key, leases[0].connection), (key, 2));
}
