//! Ticking: one leads, plans ahead under its fence, and each occurrence gets exactly one row.

use chrono::{TimeDelta, Timelike};
use harness::{Cell, PATIENCE, instant, job, noop};
use stack::wait::wait_for;

#[tokio::test]
async fn one_ticker_leads_and_plans_a_window_ahead() {
    let mut cell = Cell::start().await;
    let (leader, revision) = cell.leader().await;
    let stored = cell.sql("SELECT revision FROM fence WHERE role = 'ticker'").await;
    assert_eq!(stored, revision.to_string());
    let term = cell.sql("SELECT t.name, t.ended_at IS NULL, t.holder = f.holder FROM term t JOIN fence f USING (role, revision) WHERE role = 'ticker'").await;
    assert_eq!(term, format!("{leader}|t|t"));

    cell.api.create(job("each-second", "* * * * * *", noop())).await;
    let ahead = "SELECT coalesce(extract(epoch FROM max(scheduled_for) - esc_now())::integer, 0) FROM run";
    wait_for(PATIENCE, "rows a window ahead", async || (cell.count(ahead).await >= 60).then_some(())).await;
    let wrong = cell
        .count("SELECT count(*) FROM run WHERE term <> (SELECT revision FROM fence WHERE role = 'ticker')")
        .await;
    assert_eq!(wrong, 0, "every row carries the term that planned it");
    cell.stop().await;
}

#[tokio::test]
async fn a_job_is_planned_within_a_second_and_each_second_has_one_row() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let created = cell.api.create(job("each-second", "* * * * * *", noop())).await;
    let runs = cell.api.wait_for_runs("each-second", "SUCCEEDED", 10).await;
    let first = runs.iter().map(|run| instant(run, "scheduledFor")).min().expect("ten");
    assert!(first - instant(&created, "createTime") <= TimeDelta::seconds(2), "first {first}, {created}");
    // By rows, not by successes: what a busy machine starts late may have been skipped.
    let lacking = "SELECT extract(epoch FROM max(scheduled_for) - min(scheduled_for))::bigint + 1 - count(DISTINCT scheduled_for) FROM run";
    assert_eq!(cell.count(lacking).await, 0);
    let doubled =
        "SELECT count(*) FROM (SELECT 1 FROM run GROUP BY job_id, scheduled_for HAVING count(*) > 1) d";
    assert_eq!(cell.count(doubled).await, 0);
    cell.stop().await;
}

#[tokio::test]
async fn expressions_are_read_in_the_jobs_timezone() {
    let cell = Cell::start_with(|mut options| {
        (options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0);
        options
    })
    .await;
    let mut kolkata = job("kolkata", "30 6 * * *", noop());
    kolkata["timezone"] = "Asia/Kolkata".into(); // UTC+05:30 without clock changes
    let created = cell.api.create(kolkata).await;
    let next = instant(&created, "nextFireTime");
    assert_eq!((next.hour(), next.minute(), next.second()), (1, 0, 0));
    cell.stop().await;
}
