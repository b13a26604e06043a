//! Changing and deleting jobs: what is taken back, what stays, and who wins when a planner or a claim is in between.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod bench;
mod pause;
#[path = "../support/mod.rs"]
mod support;

use bench::{Bench, definition};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use store::job_change::{self, New};
use store::{StoreError, job};

#[tokio::test]
async fn a_change_takes_back_exactly_what_was_planned_after_it() {
    let bench = Bench::create().await;
    bench.planned(-30, 90, "SCHEDULE").await; // in its jitter window
    bench.planned(300, 0, "SCHEDULE").await;
    bench.planned(360, 0, "SCHEDULE").await;
    bench.planned(310, 0, "CATCH_UP").await;
    bench.in_ledger(320, "SCHEDULE").await; // between two attempts
    bench.queued(320, 10, "SCHEDULE", 1).await;
    bench.leased(320, None).await;

    let (removed, at) = bench.change(120, true).await.unwrap();

    assert_eq!(removed, [bench.key(300), bench.key(360)]);
    assert_eq!(bench.keys("run").await, [-30, 310, 320]);
    assert_eq!(bench.keys("run_queue").await, [-30, 310, 320]);
    // Its cursor was at 60 and 60 was not planned yet: the new schedule's 120 must not jump over it.
    assert_eq!(bench.cursor().await, (Some(60), 2));
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(60)), Some(at)));
    let revisions =
        "SELECT generation, action, in_force_from FROM job_revision WHERE job_id = $1 ORDER BY generation";
    let rows = bench.sql.query(revisions, &[&bench.job.0]).await.unwrap();
    let revisions: Vec<(i64, String, DateTime<Utc>)> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
    assert_eq!(revisions, [(1, "CREATED".to_owned(), bench.now), (2, "CHANGED".to_owned(), at)]);
}

#[tokio::test]
async fn the_cursor_goes_back_to_an_earlier_first_instant() {
    let bench = Bench::create().await;
    bench.change(20, true).await.unwrap();
    assert_eq!(bench.cursor().await, (Some(20), 2));
}

#[tokio::test]
async fn what_does_not_replan_leaves_the_plan_and_moves_the_generation() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    let (removed, _) = bench.change(20, false).await.unwrap();
    assert_eq!(removed, []);
    assert_eq!(bench.keys("run_queue").await, [300]);
    assert_eq!(bench.cursor().await, (Some(60), 2));
}

#[tokio::test]
async fn a_job_that_was_not_watched_is_watched_from_the_change_on() {
    let bench = Bench::create().await;
    let unwatched = "UPDATE watch_cursor SET next_at = $2, judge_at = NULL WHERE job_id = $1";
    bench.sql.execute(unwatched, &[&bench.job.0, &bench.at(-86_400)]).await.unwrap();
    let (_, at) = bench.change(120, false).await.unwrap();
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(120)), Some(at)));
}

#[tokio::test]
async fn a_run_that_a_claim_took_stays_in_the_ledger() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    bench.planned(360, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    let take = "DELETE FROM run_queue WHERE job_id = $1 AND scheduled_for = $2";
    claim.execute(take, &[&bench.job.0, &bench.at(300)]).await.unwrap();

    let (changed, ()) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        claim.batch_execute("COMMIT").await.unwrap();
    });

    assert_eq!(changed.unwrap().0, [bench.key(360)]);
    assert_eq!(bench.keys("run").await, [300], "its queue row was gone, so it was released");
}

#[tokio::test]
async fn a_run_whose_claim_was_rolled_back_is_taken_back() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    claim.execute("DELETE FROM run_queue WHERE job_id = $1", &[&bench.job.0]).await.unwrap();

    let (changed, ()) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        claim.batch_execute("ROLLBACK").await.unwrap();
    });

    assert_eq!(changed.unwrap().0, [bench.key(300)]);
    assert_eq!(bench.keys("run").await, [0_i64; 0]);
}

#[tokio::test]
async fn what_a_planner_commits_while_the_change_waits_is_seen() {
    let bench = Bench::create().await;
    let planner = bench.cell.connect().await;
    planner.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT 1 FROM job_cursor WHERE job_id = $1 FOR UPDATE";
    planner.execute(lock, &[&bench.job.0]).await.unwrap();

    let (changed, committed) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        let insert = "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                      VALUES ($1, $2, $3, $3, 1, 7, 'SCHEDULE')";
        let (tenant, at) = (TenantId::DEFAULT.0, bench.at(60));
        planner.execute(insert, &[&bench.job.0, &tenant, &at]).await.unwrap();
        let queue = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                     VALUES ($1, $2, $3, $3, 1, 0, 'SCHEDULE', true, 'default')";
        planner.execute(queue, &[&bench.job.0, &tenant, &at]).await.unwrap();
        let advance = "UPDATE job_cursor SET next_fire_at = $2 WHERE job_id = $1";
        planner.execute(advance, &[&bench.job.0, &bench.at(180)]).await.unwrap();
        let row = planner.query_one("SELECT esc_now()", &[]).await.unwrap();
        planner.batch_execute("COMMIT").await.unwrap();
        row.get::<_, DateTime<Utc>>(0)
    });

    let (removed, at) = changed.unwrap();
    assert_eq!(removed, [bench.key(60)]);
    assert!(at > committed, "what the planner planned belongs to the time before the change");
    assert_eq!(bench.keys("run").await, [0_i64; 0]);
    assert_eq!(bench.cursor().await, (Some(120), 2));
}

#[tokio::test]
async fn the_moment_of_a_change_is_after_the_wait_for_its_locks() {
    let bench = Bench::create().await;
    let other = bench.cell.connect().await;
    other.batch_execute("BEGIN").await.unwrap();
    other.execute("SELECT 1 FROM job WHERE id = $1 FOR UPDATE", &[&bench.job.0]).await.unwrap();
    let (changed, released) = tokio::join!(bench.change(120, true), async {
        bench.somebody_waits().await;
        let row = other.query_one("SELECT esc_now()", &[]).await.unwrap();
        other.batch_execute("COMMIT").await.unwrap();
        row.get::<_, DateTime<Utc>>(0)
    });
    assert!(changed.unwrap().1 > released);
}

#[tokio::test]
async fn changes_of_the_same_jobs_in_any_order_do_not_deadlock() {
    let bench = Bench::create().await;
    let other = JobId::random();
    let definition = definition("* * * * *");
    let new = New {
        id: other,
        name: "reports",
        definition: &definition,
        first: Some(bench.at(60)),
        judge_at: None,
    };
    let mut client = bench.cell.store.client("test").await.unwrap();
    let tx = client.begin("test").await.unwrap();
    job_change::create(&tx, TenantId::DEFAULT, bench.now, "tester", &[new]).await.unwrap();
    tx.commit().await.unwrap();
    let hold = async |jobs: [JobId; 2]| -> Result<(), StoreError> {
        for _ in 0..50 {
            let mut client = bench.cell.store.client("test").await?;
            let tx = client.begin("test").await?;
            job_change::lock(&tx, &jobs).await?;
            tx.commit().await?;
        }
        Ok(())
    };
    let (one, two) = tokio::join!(hold([bench.job, other]), hold([other, bench.job]));
    one.and(two).expect("no deadlock");
}

#[tokio::test]
async fn a_deletion_removes_ends_and_leaves_what_it_should() {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await; // after it
    bench.planned(-20, 0, "SCHEDULE").await; // due, waiting
    bench.planned(-30, 90, "SCHEDULE").await; // in its jitter window
    bench.in_ledger(-40, "SCHEDULE").await; // between two attempts
    bench.queued(-40, 60, "SCHEDULE", 1).await;
    bench.leased(-40, None).await;
    bench.in_ledger(-50, "SCHEDULE").await; // running
    bench.leased(-50, Some(uuid::Uuid::new_v4())).await;
    for seconds in [-100, -90, -80] {
        bench.in_ledger(seconds, "CATCH_UP").await; // a backlog: one is queued, two are not
    }
    bench.queued(-100, 0, "CATCH_UP", 0).await;
    let backlog = "INSERT INTO catch_up (job_id, next_at, through, remaining) VALUES ($1, $2, $3, 2)";
    bench.sql.execute(backlog, &[&bench.job.0, &bench.at(-99), &bench.at(-80)]).await.unwrap();

    let (deleted, at) = bench.delete().await.unwrap();

    assert_eq!(deleted.removed, [bench.key(300)]);
    let ended: Vec<i64> = [-100, -90, -80, -40, -30, -20].to_vec();
    assert_eq!(
        deleted.cancelled.iter().copied().collect::<Vec<_>>(),
        ended.iter().map(|s| bench.key(*s)).collect::<Vec<_>>()
    );
    for seconds in ended {
        assert_eq!(
            bench.end(seconds).await,
            ("CANCELLED".to_owned(), Some("DELETED".to_owned())),
            "{seconds}"
        );
    }
    assert_eq!(bench.end(-50).await.0, "PLANNED", "it runs, and goes on");
    assert_eq!(bench.keys("run").await, [-100, -90, -80, -50, -40, -30, -20]);
    assert_eq!(bench.keys("run_queue").await, [0_i64; 0]);
    assert_eq!(bench.keys("run_lease").await, [-50]);
    assert_eq!(bench.keys("run_outcome").await.len(), 6);
    let left = bench.sql.query("SELECT 1 FROM catch_up", &[]).await.unwrap();
    assert!(left.is_empty());
    assert_eq!(bench.cursor().await, (None, 2), "nothing is due after it");
    assert_eq!(bench.watch_cursor().await, (None, None));
    let gone = job::find(&bench.cell.store, TenantId::DEFAULT, "invoices").await.unwrap();
    assert_eq!(gone, None);
    let by_id = job::find(&bench.cell.store, TenantId::DEFAULT, &bench.job.to_string()).await.unwrap();
    let by_id = by_id.expect("its history stays readable");
    assert_eq!((by_id.deleted_at, by_id.generation), (Some(at), Generation(2)));
}

#[tokio::test]
async fn a_deletion_leaves_the_unplanned_past_to_the_planner() {
    let bench = Bench::create().await;
    let back = "UPDATE job_cursor SET next_fire_at = $2 WHERE job_id = $1";
    bench.sql.execute(back, &[&bench.job.0, &bench.at(-120)]).await.unwrap();
    let judged = "UPDATE watch_cursor SET next_at = $2, judge_at = $3 WHERE job_id = $1";
    bench.sql.execute(judged, &[&bench.job.0, &bench.at(-120), &bench.at(500)]).await.unwrap();
    bench.delete().await.unwrap();
    assert_eq!(bench.cursor().await, (Some(-120), 2));
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(-120)), Some(bench.at(500))));
}

#[tokio::test]
async fn a_run_that_is_claimed_while_the_job_is_deleted_goes_on() {
    let bench = Bench::create().await;
    bench.planned(-20, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    claim.execute("DELETE FROM run_queue WHERE job_id = $1", &[&bench.job.0]).await.unwrap();
    let lease = "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, priority,
                     undelivered, lost, failed, attempt, connection, origin, exclusive, queue)
                 VALUES ($1, $2, $1, $1, $3, esc_now(), 1, 5, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, 'default')";
    claim.execute(lease, &[&bench.job.0, &TenantId::DEFAULT.0, &bench.at(-20)]).await.unwrap();

    let (deleted, ()) = tokio::join!(bench.delete(), async {
        bench.somebody_waits().await;
        claim.batch_execute("COMMIT").await.unwrap();
    });

    assert!(deleted.unwrap().0.cancelled.is_empty());
    assert_eq!(bench.end(-20).await.0, "PLANNED");
    assert_eq!(bench.keys("run_lease").await, [-20]);
}
