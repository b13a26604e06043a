//! Pauses, as the planner sees them: time paused is neither planned nor missed, unless whoever resumes wants it so.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::TimeDelta;
use model::ids::JobId;
use model::policy::{MisfirePolicy, OverlapPolicy};
use support::{Cell, each_second};

/// Occurrences from `from` through `through` that have a run or are counted.
async fn accounted(
    cell: &Cell,
    job: JobId,
    from: chrono::DateTime<chrono::Utc>,
    through: chrono::DateTime<chrono::Utc>,
) -> i64 {
    cell.count(&format!(
        "SELECT (SELECT count(*) FROM run WHERE job_id = '{job}' AND scheduled_for > '{from}' AND scheduled_for <= '{through}') \
              + (SELECT coalesce(sum(count), 0)::bigint FROM misfire WHERE job_id = '{job}' AND first > '{from}' AND last <= '{through}')"
    ))
    .await
}

#[tokio::test]
async fn a_pause_during_an_outage_loses_nothing_before_it_and_counts_nothing_after() {
    for policy in MisfirePolicy::ALL.iter().copied() {
        let cell = Cell::create().await;
        let job = cell.create_job("job", &each_second(policy, OverlapPolicy::Forbid)).await;
        let created = cell.now().await;
        cell.ticker(1).await.plan().await;
        cell.pass(600).await; // nobody plans
        let paused = cell.pause_job(job).await;
        cell.pass(600).await;
        let ticker = cell.ticker(2).await;
        ticker.plan().await;
        assert_eq!(cell.unaccounted(job, created, paused).await, 0, "{policy}");
        let due = "SELECT count(*) FROM run_queue WHERE due_at < 'infinity'";
        assert_eq!(cell.count(due).await, 0, "{policy}: all that waits is held");
        let late = cell.count("SELECT count(*) FROM run_queue WHERE late").await;
        assert_eq!(late, i64::from(policy == MisfirePolicy::Once), "{policy}");
        // A second look changes nothing, nor does a sweep after hours.
        cell.pass(7_200).await;
        assert_eq!(ticker.plan().await, ticker::plan::Summary::default(), "{policy}");

        let resumed = cell.resume_job(job, false).await;
        ticker.plan().await;
        assert_eq!(accounted(&cell, job, paused, resumed).await, 0, "{policy}");
        let through = resumed + TimeDelta::seconds(60);
        assert_eq!(cell.unaccounted(job, resumed, through).await, 0, "{policy}");
        assert_eq!(cell.unaccounted(job, created, paused).await, 0, "{policy}");
    }
}

#[tokio::test]
async fn a_pause_that_is_caught_up_with_is_an_outage() {
    for policy in MisfirePolicy::ALL.iter().copied() {
        let cell = Cell::create().await;
        let ticker = cell.ticker(1).await;
        let job = cell.create_job("job", &each_second(policy, OverlapPolicy::Forbid)).await;
        let created = cell.now().await;
        ticker.plan().await;
        cell.pass(30).await;
        cell.pause_job(job).await;
        cell.pass(100).await;
        ticker.plan().await;
        cell.change_job(job, &each_second(policy, OverlapPolicy::Queue)).await;
        cell.pass(500).await;
        ticker.plan().await;
        let resumed = cell.resume_job(job, true).await;
        ticker.plan().await;
        assert_eq!(cell.unaccounted(job, created, resumed + TimeDelta::seconds(60)).await, 0, "{policy}");
        let (late, backlog) = (
            cell.count("SELECT count(*) FROM run_queue WHERE late").await,
            cell.count("SELECT count(*) FROM catch_up").await,
        );
        let expected = match policy {
            MisfirePolicy::Skip => (0, 0),
            MisfirePolicy::Once => (1, 0),
            MisfirePolicy::CatchUp => (0, 1),
        };
        assert_eq!((late, backlog), expected, "{policy}");
    }
}

#[tokio::test]
async fn a_held_late_run_gives_way_to_a_newer_one() {
    let cell = Cell::create().await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let created = cell.now().await;
    cell.ticker(1).await.plan().await;
    cell.pass(600).await;
    cell.ticker(2).await.plan().await; // one runs late
    cell.pass(600).await; // and nobody plans
    let paused = cell.pause_job(job).await;
    cell.ticker(3).await.plan().await;
    assert_eq!(cell.count("SELECT count(*) FROM run_queue WHERE late").await, 1);
    let newest =
        "SELECT count(*) FROM run_queue WHERE late AND scheduled_for > esc_now() - interval '15 seconds'";
    assert_eq!(cell.count(newest).await, 1);
    assert_eq!(cell.count("SELECT count(*) FROM job WHERE broken IS NOT NULL").await, 0);
    assert_eq!(cell.unaccounted(job, created, paused).await, 0);
}
