//! Catching up: a backlog of an exclusive job is handed out one by one, oldest first, each by the end of the one before.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::{DateTime, Utc};
use model::ids::JobId;
use model::policy::{MisfirePolicy, OverlapPolicy};
use support::{Cell, each_second};

async fn work_off(cell: &Cell, job: JobId) -> Vec<DateTime<Utc>> {
    let mut worked = Vec::new();
    while let Some(at) = cell.work_off(job).await {
        worked.push(at);
    }
    worked
}

#[tokio::test]
async fn occurrences_without_a_row_and_runs_not_handed_out_make_one_backlog() {
    let cell = Cell::create().await;
    let mut definition = each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid);
    definition.misfire.catch_up_limit = 200;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &definition).await;
    ticker.plan().await;
    cell.pass(160).await;
    cell.ticker(2).await.plan().await;
    let planned_before = cell.count("SELECT count(*) FROM run WHERE term = 1 AND state = 'PLANNED'").await;
    assert!(planned_before >= 119, "what was planned and not handed out belongs to the backlog");
    let worked = work_off(&cell, job).await;
    assert!((149..=152).contains(&worked.len()), "{}", worked.len());
    assert!(worked.is_sorted(), "oldest first");
    assert_eq!(cell.count("SELECT count(*) FROM catch_up").await, 0, "the backlog is closed");
    let open = "SELECT count(*) FROM run WHERE state = 'PLANNED' AND scheduled_for < esc_now() - interval '15 seconds'";
    assert_eq!(cell.count(open).await, 0);
}

#[tokio::test]
async fn what_is_missed_meanwhile_joins_the_backlogs_end() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    cell.pass(25).await;
    ticker.plan().await;
    let first = cell.work_off(job).await.expect("a backlog");
    cell.pass(5).await;
    ticker.plan().await;
    let rest = work_off(&cell, job).await;
    assert!(rest.is_sorted() && rest[0] > first, "{first} {rest:?}");
    assert!((17..=21).contains(&rest.len()), "{}", rest.len());
}

#[tokio::test]
async fn a_deleted_jobs_backlog_ends_as_cancelled() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    cell.pass(25).await;
    ticker.plan().await;
    cell.delete_job(job).await;
    assert_eq!(cell.count("SELECT count(*) FROM run WHERE state = 'PLANNED'").await, 0);
    assert_eq!(cell.texts("SELECT DISTINCT reason::text FROM run").await, "DELETED");
}
