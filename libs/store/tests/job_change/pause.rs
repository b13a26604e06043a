//! Pausing and resuming: what is held, what is released, what ends, and who wins when others are in between.

use crate::bench::Bench;
use chrono::{DateTime, Utc};
use model::ids::TenantId;
use store::{StoreError, job, job_change};

/// A paused job with a row of every kind that can wait.
async fn with_everything() -> Bench {
    let bench = Bench::create().await;
    bench.planned(300, 0, "SCHEDULE").await; // after it
    bench.planned(-20, 0, "SCHEDULE").await; // due, waiting
    bench.planned(-30, 90, "SCHEDULE").await; // in its jitter window
    bench.in_ledger(-40, "SCHEDULE").await; // between two attempts
    bench.queued(-40, 60, "SCHEDULE", 1).await;
    bench.leased(-40, None).await;
    bench.in_ledger(-50, "SCHEDULE").await; // running
    bench.leased(-50, Some(uuid::Uuid::new_v4())).await;
    bench.planned(-60, 60, "SCHEDULE").await; // late
    bench
        .sql
        .execute("UPDATE run_queue SET late = true WHERE scheduled_for = $1", &[&bench.at(-60)])
        .await
        .unwrap();
    bench.planned(-100, 0, "CATCH_UP").await; // of a backlog
    bench
}

#[tokio::test]
async fn a_pause_takes_back_what_comes_and_holds_what_waits() {
    let bench = with_everything().await;
    let (held, at) = bench.pause("maintenance").await.unwrap();
    assert_eq!((held.removed, held.held), (vec![bench.key(300)], 5));
    assert_eq!(bench.keys("run").await, [-100, -60, -50, -40, -30, -20]);
    assert_eq!(bench.held().await, [-100, -60, -40, -30, -20]);
    assert_eq!(bench.keys("run_lease").await, [-50, -40], "what runs goes on, and a retry keeps its lease");
    // The cursor was at 60, which was not planned yet; the next instant after the pause is later.
    assert_eq!(bench.cursor().await, (Some(60), 2));
    assert_eq!(bench.watch_cursor().await, (Some(bench.at(60)), Some(at)));
    let stored = job::find(&bench.cell.store, TenantId::DEFAULT, "invoices").await.unwrap().unwrap();
    let paused = stored.paused.expect("it is paused");
    assert_eq!((paused.since, paused.reason.as_str()), (at, "maintenance"));
    assert_eq!(bench.revisions().await, ["1 CREATED", "2 PAUSED paused maintenance"]);
}

#[tokio::test]
async fn a_cursor_goes_back_to_the_first_instant_of_the_pause() {
    let bench = Bench::create().await;
    bench.move_cursor(600).await;
    bench.planned(300, 0, "SCHEDULE").await;
    bench.pause("").await.unwrap();
    assert_eq!(bench.cursor().await, (Some(120), 2));
}

#[tokio::test]
async fn a_run_that_waits_for_another_one_is_held_too() {
    let bench = Bench::create().await;
    bench.in_ledger(-50, "SCHEDULE").await;
    bench.leased(-50, Some(uuid::Uuid::new_v4())).await;
    bench.in_ledger(-10, "SCHEDULE").await;
    bench.parked(-10).await;
    bench.pause("").await.unwrap();
    assert_eq!(bench.keys("run_parked").await, [0_i64; 0]);
    assert_eq!(bench.held().await, [-10]);
}

#[tokio::test]
async fn a_resumption_ends_what_was_scheduled_and_releases_the_rest() {
    let bench = with_everything().await;
    bench.pause("").await.unwrap();
    let (released, at) = bench.resume(false).await.unwrap();
    let cancelled: Vec<_> = released.cancelled.iter().copied().collect();
    assert_eq!((cancelled, released.released), (vec![bench.key(-30), bench.key(-20)], 3));
    for seconds in [-30, -20] {
        assert_eq!(bench.end(seconds).await, ("CANCELLED".to_owned(), Some("PAUSED".to_owned())));
    }
    assert_eq!(bench.keys("run_queue").await, [-100, -60, -40]);
    assert_eq!(bench.held().await, [0_i64; 0]);
    let due = "SELECT count(*) FROM run_queue WHERE job_id = $1 AND due_at = $2";
    let due: i64 = bench.sql.query_one(due, &[&bench.job.0, &at]).await.unwrap().get(0);
    assert_eq!(due, 3, "at once");
    assert_eq!(bench.cursor().await, (Some(60), 3));
    assert_eq!(bench.revisions().await, ["1 CREATED", "2 PAUSED paused", "3 RESUMED"]);
    let stored = job::find(&bench.cell.store, TenantId::DEFAULT, "invoices").await.unwrap().unwrap();
    assert_eq!(stored.paused, None);
}

#[tokio::test]
async fn a_resumption_that_catches_up_gives_back_everything_since_the_pause() {
    let bench = with_everything().await;
    let (_, paused) = bench.pause("").await.unwrap();
    bench.move_cursor(7_200).await; // the planner has walked over the pause
    let (released, _) = bench.resume(true).await.unwrap();
    assert!(released.cancelled.is_empty(), "{released:?}");
    assert_eq!((released.released, bench.held().await.len()), (5, 0));
    let sql = "SELECT next_fire_at FROM job_cursor";
    let cursor: DateTime<Utc> = bench.sql.query_one(sql, &[]).await.unwrap().get(0);
    assert_eq!((cursor - paused).num_microseconds(), Some(1));
    // Not before its own time: it is in its jitter window.
    let sql = "SELECT due_at FROM run_queue WHERE scheduled_for = $1";
    let due: DateTime<Utc> = bench.sql.query_one(sql, &[&bench.at(-30)]).await.unwrap().get(0);
    assert_eq!(due, bench.at(60));
    assert_eq!(bench.revisions().await.last().unwrap(), "3 RESUMED catches up");
}

#[tokio::test]
async fn runs_that_were_spread_over_a_time_keep_their_distance() {
    let bench = Bench::create().await;
    for (seconds, due) in [(-200, 30), (-190, 40)] {
        bench.planned(seconds, due - seconds, "BACKFILL").await;
    }
    let (_, paused) = bench.pause("").await.unwrap();
    let (_, resumed) = bench.resume(false).await.unwrap();
    let sql = "SELECT due_at FROM run_queue ORDER BY scheduled_for";
    let due: Vec<DateTime<Utc>> =
        bench.sql.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    assert_eq!(due, [bench.at(30) + (resumed - paused), bench.at(40) + (resumed - paused)]);
}

#[tokio::test]
async fn a_backlog_goes_on_at_its_pace_not_all_at_once() {
    let bench = Bench::create().await;
    for seconds in [-300, -290, -280] {
        bench.planned(seconds, 0, "CATCH_UP").await;
    }
    bench.pause("").await.unwrap();
    let (_, resumed) = bench.resume(false).await.unwrap();
    let sql = "SELECT due_at FROM run_queue ORDER BY scheduled_for";
    let due: Vec<DateTime<Utc>> =
        bench.sql.query(sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect();
    let later = |ms| resumed + chrono::TimeDelta::milliseconds(ms);
    assert_eq!(due, [resumed, later(100), later(200)]); // ten a second
}

#[tokio::test]
async fn a_deletion_ends_what_a_pause_holds_and_what_waits_for_another_run() {
    let bench = Bench::create().await;
    bench.planned(-20, 0, "SCHEDULE").await;
    bench.pause("").await.unwrap();
    bench.in_ledger(-10, "SCHEDULE").await;
    bench.parked(-10).await;
    let (deleted, _) = bench.delete().await.unwrap();
    assert_eq!(deleted.cancelled.into_iter().collect::<Vec<_>>(), [bench.key(-20), bench.key(-10)]);
    assert_eq!((bench.keys("run_queue").await.len(), bench.keys("run_parked").await.len()), (0, 0));
    let id = bench.job.to_string();
    let stored = job::find(&bench.cell.store, TenantId::DEFAULT, &id).await.unwrap().unwrap();
    assert_eq!(stored.paused, None, "nobody resumes it any more");
}

#[tokio::test]
async fn a_deletion_ends_a_run_once_that_waits_in_the_span_of_a_backlog() {
    let bench = Bench::create().await;
    bench.in_ledger(-50, "SCHEDULE").await; // running
    bench.leased(-50, Some(uuid::Uuid::new_v4())).await;
    bench.in_ledger(-40, "SCHEDULE").await;
    bench.parked(-40).await;
    for seconds in [-60, -30] {
        bench.in_ledger(seconds, "BACKFILL").await;
    }
    let backlog = "INSERT INTO catch_up (job_id, next_at, through, remaining) VALUES ($1, $2, $3, 2)";
    bench.sql.execute(backlog, &[&bench.job.0, &bench.at(-60), &bench.at(-30)]).await.unwrap();
    let (deleted, _) = bench.delete().await.unwrap();
    let cancelled: Vec<_> = deleted.cancelled.into_iter().collect();
    assert_eq!(cancelled, [-60, -40, -30].map(|seconds| bench.key(seconds)));
    assert_eq!(bench.keys("run_lease").await, [-50], "what runs goes on");
}

#[tokio::test]
async fn a_run_that_a_claim_takes_while_the_job_is_paused_goes_on() {
    let bench = Bench::create().await;
    bench.planned(-20, 0, "SCHEDULE").await;
    bench.planned(-10, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN").await.unwrap();
    let take = "DELETE FROM run_queue WHERE job_id = $1 AND scheduled_for = $2";
    claim.execute(take, &[&bench.job.0, &bench.at(-20)]).await.unwrap();
    let (paused, ()) = tokio::join!(bench.pause(""), async {
        bench.somebody_waits().await;
        claim.batch_execute("COMMIT").await.unwrap();
    });
    assert_eq!(paused.unwrap().0.held, 1);
    assert_eq!(bench.held().await, [-10]);
    assert_eq!(bench.end(-20).await.0, "PLANNED");
}

#[tokio::test]
async fn the_moment_of_a_pause_is_after_the_claims_that_it_waits_for() {
    let bench = Bench::create().await;
    bench.planned(-20, 0, "SCHEDULE").await;
    let claim = bench.cell.connect().await;
    claim.batch_execute("BEGIN; DELETE FROM run_queue").await.unwrap();
    let (paused, claimed) = tokio::join!(bench.pause(""), async {
        bench.somebody_waits().await;
        let claimed: DateTime<Utc> = claim.query_one("SELECT esc_now()", &[]).await.unwrap().get(0);
        claim.batch_execute("COMMIT").await.unwrap();
        claimed
    });
    assert!(paused.unwrap().1 > claimed, "a run that is claimed is no run of the pause");
}

#[tokio::test]
async fn no_claim_takes_a_run_between_the_moment_of_a_change_and_its_end() {
    let bench = Bench::create().await;
    bench.planned(60, 0, "SCHEDULE").await;
    let mut client = bench.cell.store.client("test").await.unwrap();
    let tx = client.begin("test").await.unwrap();
    let claimable = "SELECT 1 FROM run_queue FOR UPDATE SKIP LOCKED";
    job_change::lock_unqueued(&tx, &[bench.job]).await.unwrap();
    assert_eq!(bench.sql.query(claimable, &[]).await.unwrap().len(), 1, "nothing is taken back");
    job_change::lock(&tx, &[bench.job]).await.unwrap();
    assert_eq!(bench.sql.query(claimable, &[]).await.unwrap().len(), 0);
}

#[tokio::test]
async fn what_a_planner_commits_while_the_pause_waits_is_taken_back() {
    let bench = Bench::create().await;
    let planner = bench.cell.connect().await;
    planner.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT 1 FROM job_cursor WHERE job_id = $1 FOR UPDATE";
    planner.execute(lock, &[&bench.job.0]).await.unwrap();
    let (paused, ()) = tokio::join!(bench.pause(""), async {
        bench.somebody_waits().await;
        let plan = format!(
            "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, generation, term, origin)
                 SELECT job_id, '{tenant}', next_fire_at, next_fire_at, 1, 7, 'SCHEDULE' FROM job_cursor;
             INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue)
                 SELECT job_id, '{tenant}', next_fire_at, next_fire_at, 1, 0, 'SCHEDULE', true, 'default' FROM job_cursor;
             UPDATE job_cursor SET next_fire_at = next_fire_at + interval '2 min';
             COMMIT",
            tenant = TenantId::DEFAULT
        );
        planner.batch_execute(&plan).await.unwrap();
    });
    assert_eq!(paused.unwrap().0.removed, [bench.key(60)]);
    assert_eq!(bench.keys("run").await, [0_i64; 0]);
    assert_eq!(bench.cursor().await, (Some(120), 2));
}

#[tokio::test]
async fn a_run_that_is_woken_while_the_job_is_paused_is_held() -> Result<(), StoreError> {
    let bench = Bench::create().await;
    bench.in_ledger(-10, "SCHEDULE").await;
    bench.parked(-10).await;
    let waker = bench.cell.connect().await;
    waker.batch_execute("BEGIN; SELECT 1 FROM run_parked FOR UPDATE").await.unwrap();
    let (paused, ()) = tokio::join!(bench.pause(""), async {
        bench.somebody_waits().await;
        let wake = "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, overlap, queue)
                        SELECT job_id, tenant_id, scheduled_for, esc_now(), generation, priority, origin, true, overlap, queue FROM run_parked;
                    DELETE FROM run_parked; COMMIT";
        waker.batch_execute(wake).await.unwrap();
    });
    assert_eq!(paused?.0.held, 1);
    assert_eq!(bench.held().await, [-10]);
    Ok(())
}
