//! Definitions that change, end or can't be used: each instant is planned by the one in force at it, and a bad one
//! stops nobody else.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use chrono::TimeDelta;
use model::job::Definition;
use model::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use std::time::Duration;
use store::job_change;
use support::{Cell, each_second};

#[tokio::test]
async fn a_change_inside_the_window_leaves_exactly_what_the_new_definition_asks_for() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let old = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    let job = cell.create_job("job", &old).await;
    ticker.plan().await;
    cell.pass(5).await;
    let mut new = old.clone();
    new.schedule = "*/5 * * * * *".to_owned();
    new.queue = "other".to_owned();
    let at = cell.change_job(job, &new).await;
    ticker.plan().await;
    let after = |what: &str| format!("SELECT count(*) FROM run WHERE scheduled_for > '{at}' AND {what}");
    assert_eq!(cell.count(&after("generation <> 2")).await, 0);
    assert_eq!(cell.count(&after("extract(second FROM scheduled_for)::integer % 5 <> 0")).await, 0);
    assert!((23..=25).contains(&cell.count(&after("true")).await));
    let before = format!("SELECT count(*) FROM run WHERE scheduled_for <= '{at}' AND generation <> 1");
    assert_eq!(cell.count(&before).await, 0);
}

/// One change inside the planned window, near the end of summer time in Berlin: what is planned before and after it, as
/// scheduled second, seconds of jitter, seconds of grace and overlap policy.
struct Change {
    what: &'static str,
    clock: &'static str,
    change: fn(&mut Definition),
    before: &'static str,
    after: &'static str,
}

#[tokio::test]
async fn whatever_is_changed_inside_the_window_only_the_new_definition_is_planned() {
    let changes = [
        Change {
            what: "the schedule",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.schedule = "5 30 2 * * *".to_owned(),
            before: "00:30:00/0/60/FORBID",
            after: "00:30:05/0/60/FORBID",
        },
        Change {
            what: "the timezone",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.timezone = "Europe/London".to_owned(),
            before: "00:30:00/0/60/FORBID",
            after: "",
        },
        Change {
            what: "the fold's rule",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.dst_fold = DstFold::Second,
            before: "00:30:00/0/60/FORBID",
            after: "",
        },
        Change {
            what: "the fold's rule, on its second pass",
            clock: "2026-10-25 01:29:10Z",
            change: |job| job.dst_fold = DstFold::Both,
            before: "",
            after: "01:30:00/0/60/FORBID",
        },
        Change {
            what: "the gap's rule",
            clock: "2026-03-29 00:59:10Z",
            change: |job| job.dst_gap = DstGap::Skip,
            before: "01:00:00/0/60/FORBID",
            after: "",
        },
        Change {
            what: "the misfire policy's grace",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.misfire.grace = Duration::from_secs(90),
            before: "00:30:00/0/60/FORBID",
            after: "00:30:00/0/90/FORBID",
        },
        Change {
            what: "the overlap policy",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.overlap = OverlapPolicy::Queue,
            before: "00:30:00/0/60/FORBID",
            after: "00:30:00/0/60/QUEUE",
        },
        Change {
            what: "its end",
            clock: "2026-10-25 00:29:10Z",
            change: |job| job.ends_at = "2026-10-25T00:29:59Z".parse().ok(),
            before: "00:30:00/0/60/FORBID",
            after: "",
        },
    ];
    for Change { what, clock, change, before, after } in changes {
        let cell = Cell::create().await;
        cell.set_clock(clock).await;
        let ticker = cell.ticker(1).await;
        let mut definition = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
        (definition.schedule, definition.timezone) = ("30 2 * * *".to_owned(), "Europe/Berlin".to_owned());
        definition.misfire.grace = Duration::from_secs(60);
        let job = cell.create_job("job", &definition).await;
        ticker.plan().await;
        let planned = "SELECT format('%s/%s/%s/%s', to_char(r.scheduled_for AT TIME ZONE 'UTC', 'HH24:MI:SS'), \
                 extract(epoch FROM r.due_at - r.scheduled_for)::integer, \
                 extract(epoch FROM q.start_by - q.due_at)::integer, q.overlap) \
             FROM run r LEFT JOIN run_queue q USING (job_id, scheduled_for) ORDER BY r.scheduled_for";
        assert_eq!(cell.texts(planned).await, before, "before {what} was changed");
        change(&mut definition);
        cell.change_job(job, &definition).await;
        ticker.plan().await;
        assert_eq!(cell.texts(planned).await, after, "after {what} was changed");
    }
}

#[tokio::test]
async fn jitter_that_is_changed_inside_the_window_moves_the_runs_that_are_planned() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let mut definition = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    definition.schedule = "*/20 * * * * *".to_owned();
    let job = cell.create_job("job", &definition).await;
    ticker.plan().await;
    let spread = "SELECT count(*) FROM run WHERE due_at > scheduled_for";
    assert_eq!(cell.count(spread).await, 0);
    let runs = cell.count("SELECT count(*) FROM run").await;
    definition.jitter = Duration::from_secs(20);
    let at = cell.change_job(job, &definition).await;
    ticker.plan().await;
    let unspread =
        format!("SELECT count(*) FROM run WHERE scheduled_for > '{at}' AND due_at <= scheduled_for");
    assert_eq!(cell.count(&unspread).await, 0);
    assert!(cell.count(spread).await >= runs - 1 && runs >= 5, "{runs} runs");
}

#[tokio::test]
async fn a_change_during_an_outage_splits_the_past_by_definition_and_policy() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let old = each_second(MisfirePolicy::Skip, OverlapPolicy::Forbid);
    let job = cell.create_job("job", &old).await;
    let created = cell.now().await;
    drop(ticker);
    cell.pass(600).await;
    let at = cell.change_job(job, &each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid)).await;
    cell.pass(600).await;
    cell.ticker(2).await.plan().await;
    assert_eq!(cell.unaccounted(job, created, cell.now().await + TimeDelta::seconds(119)).await, 0);
    let by_old = format!(
        "SELECT coalesce(sum(count), 0)::bigint FROM misfire WHERE outcome = 'SKIPPED' AND last <= '{at}'"
    );
    assert!((599..=602).contains(&cell.count(&by_old).await));
    assert_eq!(cell.count("SELECT count(*) FROM run WHERE origin = 'CATCH_UP' AND generation = 2").await, 30);
    assert_eq!(cell.count("SELECT count(*) FROM run WHERE generation = 1").await, 0);
}

#[tokio::test]
async fn a_job_that_is_being_changed_is_left_for_the_next_batch() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let definition = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    let job = cell.create_job("job", &definition).await;
    let other = cell.create_job("other", &definition).await;
    let mut client = cell.store.client("change").await.expect("connected");
    let tx = client.begin("change").await.expect("begun");
    job_change::lock(&tx, &[job]).await.expect("locked");
    ticker.plan().await;
    let of = |job| format!("SELECT count(*) FROM run WHERE job_id = '{job}'");
    assert_eq!(cell.count(&of(job)).await, 0, "its cursor is locked");
    assert!(cell.count(&of(other)).await > 0);
    tx.commit().await.expect("committed");
    ticker.plan().await;
    assert!(cell.count(&of(job)).await > 0);
}

#[tokio::test]
async fn a_job_at_another_generation_than_its_cursor_is_not_planned() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    cell.execute("UPDATE job SET generation = 2").await;
    assert_eq!(ticker.plan().await.planned, 0);
    cell.execute("UPDATE job SET generation = 1").await;
    assert!(ticker.plan().await.planned > 0);
}

#[tokio::test]
async fn a_deleted_jobs_past_is_accounted_for_and_it_has_no_future() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    let created = cell.now().await;
    ticker.plan().await;
    cell.pass(600).await;
    let deleted = cell.delete_job(job).await;
    cell.pass(100).await;
    ticker.plan().await;
    assert_eq!(cell.unaccounted(job, created, deleted).await, 0);
    assert_eq!(cell.count(&format!("SELECT count(*) FROM run WHERE scheduled_for > '{deleted}'")).await, 0);
    let late = format!("SELECT count(*) FROM run_queue WHERE late AND job_id = '{job}'");
    assert_eq!(cell.count(&late).await, 0, "nothing of a deleted job runs late");
    assert_eq!(cell.count("SELECT count(*) FROM job_cursor WHERE next_fire_at IS NULL").await, 1);
    assert_eq!(ticker.plan().await.planned, 0);
}

#[tokio::test]
async fn a_bad_definition_is_marked_and_stops_nobody_until_it_is_mended() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    let good = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    let (mut expression, mut timezone) = (good.clone(), good.clone());
    expression.schedule = "61 * * * *".to_owned();
    timezone.timezone = "Europe/Nowhere".to_owned();
    let bad = cell.create_job("expression", &expression).await;
    cell.create_job("timezone", &timezone).await;
    cell.create_job("unreadable", &good).await;
    let strip = "UPDATE job_revision SET definition = '{}' WHERE job_id = (SELECT id FROM job WHERE name = 'unreadable')";
    cell.execute(strip).await;
    let job = cell.create_job("good", &good).await;
    let summary = ticker.plan().await;
    assert_eq!(summary.broken, 3);
    assert_eq!(cell.count(&format!("SELECT count(*) FROM run WHERE job_id <> '{job}'")).await, 0);
    assert!(summary.planned >= 119);
    let broken = "SELECT j.name FROM job j JOIN job_cursor c ON c.job_id = j.id \
                  WHERE c.broken AND j.broken IS NOT NULL ORDER BY 1";
    assert_eq!(cell.texts(broken).await, "expression timezone unreadable");
    assert_eq!(ticker.plan().await.broken, 0, "and left alone");

    cell.pass(30).await;
    cell.change_job(bad, &good).await;
    ticker.plan().await;
    assert!(cell.count(&format!("SELECT count(*) FROM run WHERE job_id = '{bad}'")).await >= 119);
}

#[tokio::test]
async fn a_job_whose_rows_the_database_refuses_is_found_and_the_rest_of_its_batch_is_planned() {
    let cell = Cell::create().await;
    let ticker = cell.ticker(1).await;
    cell.execute("ALTER TABLE run_queue ADD CHECK (queue <> 'refused')").await;
    let good = each_second(MisfirePolicy::Once, OverlapPolicy::Forbid);
    let mut bad = good.clone();
    bad.queue = "refused".to_owned();
    for n in 0..5 {
        cell.create_job(&format!("good-{n}"), &good).await;
    }
    cell.create_job("bad", &bad).await;
    let summary = ticker.plan().await;
    assert_eq!(summary.broken, 1);
    assert_eq!(cell.count("SELECT count(DISTINCT job_id) FROM run").await, 5);
    assert_eq!(cell.texts("SELECT name FROM job WHERE broken LIKE '%check%'").await, "bad");
}
