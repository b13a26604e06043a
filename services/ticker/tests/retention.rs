//! What is old leaves the ledger, a day at a time and by the leader alone; what is open never does.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests")]

mod support;

use chrono::NaiveDate;
use model::ids::JobId;
use model::policy::{MisfirePolicy, OverlapPolicy};
use stack::wait::wait_for;
use std::time::Duration;
use store::StoreError;
use store::partition::Partition;
use support::place::Place;
use support::{Cell, LIMIT, Ticker, each_second};
use ticker::upkeep::retain::{Retain, Step};
use ticker::upkeep::{self, Metrics, Policy};

const DAY: u64 = 86_400;

/// The ledger for two days, the audit trail for four.
const POLICY: Policy = Policy { ledger: Duration::from_secs(2 * DAY), audit: Duration::from_secs(4 * DAY) };

/// One look and all that follows from it.
async fn look(cell: &Cell, ticker: &Ticker) -> Vec<Step> {
    let mut retain = Retain::new(POLICY, Metrics::new());
    let mut steps = Vec::new();
    loop {
        let step = retain.step(&cell.store, ticker.planner.term, cell.now().await).await.expect("a step");
        if step == Step::Idle {
            return steps;
        }
        steps.push(step);
    }
}

fn gone(steps: &[Step]) -> Vec<String> {
    let name = |step: &Step| match step {
        Step::Gone(Partition { base, day }) => Some(format!("{base} {day}")),
        _ => None,
    };
    steps.iter().filter_map(name).collect()
}

async fn days(cell: &Cell) -> Vec<NaiveDate> {
    let mut client = cell.store.client("look").await.unwrap();
    let tx = client.begin("look").await.unwrap();
    let mut days = store::partition::days(&tx).await.unwrap();
    days.reverse();
    days
}

fn day(text: &str) -> NaiveDate {
    text.parse().unwrap()
}

/// Ends every planned run but the earliest; the rest is what a cell leaves behind that worked.
async fn end_all_but_the_first(cell: &Cell, job: JobId) {
    cell.execute(&format!(
        "WITH closed AS (DELETE FROM run_queue q WHERE job_id = '{job}' AND scheduled_for <> (SELECT min(scheduled_for) FROM run_queue) \
                         RETURNING job_id, scheduled_for) \
         UPDATE run r SET state = 'CANCELLED', reason = 'REQUESTED', finished_at = esc_now() FROM closed c \
         WHERE r.job_id = c.job_id AND r.scheduled_for = c.scheduled_for"
    ))
    .await;
}

/// A ticker of a cell whose ledger begins on 2026-02-20, at noon of 2026-02-28.
async fn at_noon(cell: &Cell) -> Ticker {
    cell.set_clock("2026-02-28T12:00:00Z").await;
    let ticker = cell.ticker(1).await;
    assert_eq!(days(cell).await.first(), Some(&day("2026-02-20")));
    ticker
}

#[tokio::test]
async fn days_go_one_at_a_look_until_only_those_are_left_that_are_kept() {
    let cell = Cell::create().await;
    let ticker = at_noon(&cell).await;
    let first = look(&cell, &ticker).await;
    assert_eq!(gone(&first), ["run 2026-02-20", "run_outcome 2026-02-20", "run_output 2026-02-20"]);
    for _ in 0..9 {
        look(&cell, &ticker).await;
    }
    assert_eq!(days(&cell).await.first(), Some(&day("2026-02-26")), "two whole days and today");
    let floor = "SELECT extract(epoch FROM floor)::bigint FROM ledger_floor";
    assert_eq!(
        cell.count(floor).await,
        "2026-02-26T00:00:00Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp()
    );
    upkeep::ensure(&cell.store, ticker.planner.term, cell.now().await).await.expect("partitions");
    assert_eq!(
        days(&cell).await.first(),
        Some(&day("2026-02-26")),
        "what is below the floor is not made again"
    );
}

#[tokio::test]
async fn an_open_run_keeps_its_day_and_holds_no_other() {
    let cell = Cell::create().await;
    let mut ticker = at_noon(&cell).await;
    let job = cell.create_job("job", &each_second(MisfirePolicy::Once, OverlapPolicy::Forbid)).await;
    ticker.plan().await;
    end_all_but_the_first(&cell, job).await;
    cell.execute("UPDATE run_queue SET start_by = NULL").await; // as of a run by hand that nobody takes
    cell.delete_job(job).await;
    cell.execute("UPDATE job_cursor SET next_fire_at = NULL").await;
    cell.pass(6 * 86_400).await;
    ticker.ledger =
        upkeep::ensure(&cell.store, ticker.planner.term, cell.now().await).await.expect("partitions");
    cell.execute(&format!(
        "INSERT INTO run_queue (job_id, tenant_id, scheduled_for, due_at, generation, priority, origin, exclusive, queue) \
         SELECT job_id, tenant_id, scheduled_for, due_at, 1, 0, 'MANUAL', true, 'default' FROM run \
         WHERE job_id = '{job}' ORDER BY scheduled_for LIMIT 1 ON CONFLICT DO NOTHING"
    ))
    .await;
    let mut kept = 0;
    for _ in 0..20 {
        let steps = look(&cell, &ticker).await;
        kept += steps.iter().filter(|step| matches!(step, Step::Open(_))).count();
    }
    assert!(kept > 0);
    let expected = ["2026-02-28", "2026-03-04", "2026-03-05"].map(day);
    assert_eq!(days(&cell).await[..3], expected, "the day of the open run, and those that are kept");

    cell.execute("DELETE FROM run_queue").await;
    let steps = look(&cell, &ticker).await;
    assert_eq!(gone(&steps).len(), 3, "{steps:?}");
    assert_eq!(days(&cell).await.first(), Some(&day("2026-03-04")));
}

#[tokio::test]
async fn old_rows_go_with_the_ledger_and_the_audit_trail_stays_longer() {
    let cell = Cell::create().await;
    let ticker = at_noon(&cell).await;
    cell.execute(
        "INSERT INTO audit_event (at, tenant_id, actor, action, object) \
         SELECT '2026-02-18T00:00:00Z'::timestamptz + n * interval '1 minute', '00000000-0000-4000-8000-000000000001', 'x', 'x', 'x' \
         FROM generate_series(1, 20000) n",
    )
    .await;
    cell.execute(
        "INSERT INTO misfire (job_id, first, last, recorded_at, count, term, cause, policy, outcome) \
         SELECT gen_random_uuid(), at, at, at, 1, 1, 'NO_TICKER', 'SKIP', 'SKIPPED' \
         FROM unnest('{2026-02-25T12:00:00Z, 2026-02-27T12:00:00Z}'::timestamptz[]) at",
    )
    .await;
    for _ in 0..9 {
        look(&cell, &ticker).await;
    }
    assert_eq!(cell.count("SELECT count(*) FROM misfire").await, 1);
    let oldest = cell.texts("SELECT min(at)::text FROM audit_event").await;
    assert_eq!(oldest, "2026-02-24 12:01:00+00", "four days, to the minute");
}

#[tokio::test]
async fn a_job_that_reaches_back_further_keeps_the_ledger() {
    let cell = Cell::create().await;
    let ticker = at_noon(&cell).await;
    let mut job = each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid);
    job.misfire.catch_up_window = Duration::from_secs(5 * DAY);
    cell.create_job("job", &job).await;
    for _ in 0..9 {
        look(&cell, &ticker).await;
    }
    assert_eq!(days(&cell).await.first(), Some(&day("2026-02-22")), "five days, a minute's run, and a day");
}

#[tokio::test]
async fn a_deposed_ticker_lets_nothing_go() {
    let cell = Cell::create().await;
    let deposed = at_noon(&cell).await;
    let _successor = cell.ticker(2).await;
    let before = days(&cell).await;
    let mut retain = Retain::new(POLICY, Metrics::new());
    let refused = retain.step(&cell.store, deposed.planner.term, cell.now().await).await;
    assert!(matches!(refused, Err(StoreError::Fenced { .. })), "{refused:?}");
    assert_eq!(days(&cell).await, before);
}

#[tokio::test]
async fn the_leader_lets_go_by_itself_and_says_so() {
    let place = Place::create().await;
    let old = "SELECT esc_make_partitions(current_date - 60, current_date - 60)::bigint";
    assert_eq!(place.cell.count(old).await, 3);
    let _one = place.start("one");
    let left = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND relname ~ '^run.*_20' \
                AND relnamespace = current_schema()::regnamespace AND right(relname, 8)::date < current_date - 30";
    wait_for(LIMIT, "the old day to go", async || (place.cell.count(left).await == 0).then_some(())).await;
    wait_for(LIMIT, "the metric", async || {
        let metrics = place.metrics("one").await;
        let dropped = metrics.lines().find(|line| line.starts_with("ticker_partitions_dropped"))?;
        dropped.ends_with(" 3").then_some(())
    })
    .await;
    assert!(place.log("one").contains("Dropped a partition by age"));
    assert!(
        place
            .metrics("one")
            .await
            .lines()
            .any(|line| line.starts_with("ticker_partitions_days_ahead") && line.ends_with(" 3"))
    );
}

#[tokio::test]
async fn it_does_not_start_when_a_backlog_may_reach_below_what_is_kept() {
    let place = Place::create().await;
    let mut job = each_second(MisfirePolicy::CatchUp, OverlapPolicy::Forbid);
    job.misfire.catch_up_window = Duration::from_secs(7 * DAY);
    place.cell.create_job("invoices", &job).await;
    let mut refused = place.start_set("one", &[("ESCAPEMENT_RETENTION_DAYS", "8")]);
    let status = refused.exited_within(LIMIT).await.expect("its state").expect("it ended");
    assert!(!status.success(), "{}", place.log("one"));
    let log = place.log("one");
    assert!(
        log.contains("retention_days") && log.contains("invoices") && log.contains("at least 9 days"),
        "{log}"
    );
    let _two = place.start_set("two", &[("ESCAPEMENT_RETENTION_DAYS", "9")]);
    place.leader_but("").await;
}
