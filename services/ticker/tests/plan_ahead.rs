//! Planning: each occurrence of the window gets one run and one place in the queue, whoever plans how often.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::TimeDelta;
use model::policy::{MisfirePolicy, OverlapPolicy};
use std::time::Duration;
use support::{Cell, each_second};
use ticker::plan::Limits;

#[tokio::test]
async fn each_occurrence_of_two_windows_gets_one_run_in_the_queue() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let before = cell.now().await;
    let summary = ticker.plan().await;
    assert!((119..=122).contains(&summary.planned), "{summary:?}");
    let through = before + TimeDelta::seconds(119);
    assert_eq!(cell.unaccounted(job, before, through).await, 0);
    assert_eq!(
        cell.count("SELECT count(*) FROM run").await,
        cell.count("SELECT count(*) FROM run_queue").await
    );
    let wrong = "SELECT count(*) FROM run JOIN run_queue q USING (job_id, scheduled_for) \
                 WHERE run.term <> 1 OR q.start_by <> q.due_at + interval '10 seconds' OR NOT q.exclusive OR q.late";
    assert_eq!(cell.count(wrong).await, 0);
    assert_eq!(ticker.plan().await.planned, 0, "the cursor is past the window");
    cell.pass(61).await;
    assert!(ticker.plan().await.planned > 0, "and due again when the window has moved on");
    assert_eq!(cell.unaccounted(job, before, before + TimeDelta::seconds(179)).await, 0);
}

#[tokio::test]
async fn two_planners_at_once_insert_no_occurrence_twice() {
    let cell = Cell::create().await;
    let limits =
        Limits { lookahead: Duration::from_secs(60), jobs: 3, occurrences_per_job: 50, occurrences: 100 };
    let ticker = cell.ticker_with(1, limits).await;
    let mut jobs = Vec::new();
    for n in 0..10 {
        let definition = each_second(MisfirePolicy::Once, OverlapPolicy::Allow);
        jobs.push(cell.create_job(&format!("job-{n}"), &definition).await);
    }
    let before = cell.now().await;
    let (one, two) = tokio::join!(ticker.plan(), ticker.plan());
    ticker.plan().await;
    assert!(one.planned > 0 && two.planned > 0, "{one:?} {two:?}");
    for job in jobs {
        assert_eq!(cell.unaccounted(job, before, before + TimeDelta::seconds(60)).await, 0);
    }
    let unqueued = "SELECT count(*) FROM run r LEFT JOIN run_queue q USING (job_id, scheduled_for) WHERE q.job_id IS NULL";
    assert_eq!(cell.count(unqueued).await, 0);
}

#[tokio::test]
async fn a_cursor_that_went_back_plans_nothing_again() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    // One was taken and is gone from the queue: its place in the ledger keeps it from being queued again.
    cell.execute("DELETE FROM run_queue WHERE scheduled_for = (SELECT min(scheduled_for) FROM run_queue)")
        .await;
    let queued = cell.count("SELECT count(*) FROM run_queue").await;
    cell.execute("UPDATE job_cursor SET next_fire_at = (SELECT min(scheduled_for) FROM run)").await;
    let again = ticker.plan().await;
    assert!(again.planned <= 2, "{again:?}");
    let added = i64::try_from(again.planned).expect("few");
    assert_eq!(cell.count("SELECT count(*) FROM run_queue").await, queued + added);
}

#[tokio::test]
async fn a_long_past_is_worked_off_in_batches_that_stay() {
    let cell = Cell::create().await;
    let limits =
        Limits { lookahead: Duration::from_secs(60), jobs: 10, occurrences_per_job: 500, occurrences: 1_000 };
    let ticker = cell.ticker_with(1, limits).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let created = cell.now().await;
    cell.pass(6 * 3_600).await;
    let one = ticker.planner.run_once(ticker.ledger, || true).await.expect("planned");
    assert!(one.more && one.missed == 20 * 500, "{one:?}");
    assert_eq!(cell.missed(job).await, 10_000, "what was decided is committed");
    ticker.plan().await;
    assert_eq!(cell.unaccounted(job, created, cell.now().await + TimeDelta::seconds(119)).await, 0);
    assert_eq!(cell.count("SELECT count(*) FROM run_queue WHERE late").await, 1);
}

#[tokio::test]
async fn nothing_is_planned_once_the_leadership_is_over() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let summary = ticker.planner.run_once(ticker.ledger, || false).await.expect("nothing");
    assert_eq!((summary.planned, summary.more), (0, true));
    assert_eq!(cell.count("SELECT count(*) FROM run").await, 0);
}

#[tokio::test]
async fn nothing_is_planned_below_the_ledgers_floor() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let mut definition = each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid);
    definition.misfire.catch_up_limit = 1_000;
    let job = cell.create_job("job", &definition).await;
    let created = cell.now().await;
    cell.pass(300).await;
    cell.execute("UPDATE ledger_floor SET floor = date_trunc('second', esc_now()) - interval '100 seconds'")
        .await;
    ticker.plan().await;
    assert_eq!(cell.count("SELECT count(*) FROM run, ledger_floor WHERE scheduled_for < floor").await, 0);
    let below = "SELECT sum(count)::bigint FROM misfire WHERE cause = 'BEYOND_RETENTION' AND outcome = 'BEYOND_RETENTION'";
    assert!((199..=202).contains(&cell.count(below).await));
    assert_eq!(cell.unaccounted(job, created, cell.now().await + TimeDelta::seconds(119)).await, 0);
}
