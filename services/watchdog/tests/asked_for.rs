//! What owners asked to be told of beside a missed deadline, and that nothing is told twice; over a clock that the test
//! moves.

mod support;

use model::alert::on::On;
use model::job::Definition;
use std::time::Duration as Time;
use support::{Cell, definition, noon, rows};

/// A job each minute whose deadline is far away.
fn asking(on: On) -> Definition {
    let mut definition = definition("* * * * *", 3_600);
    definition.alert.on = on;
    definition
}

/// Kind and `told` or `untold` of the alerts, in the order of their opening.
async fn alerts(cell: &Cell) -> Vec<String> {
    let rows = rows!(
        cell,
        "SELECT kind || CASE WHEN untold THEN ' untold' ELSE ' told' END || CASE WHEN resolved_at IS NULL THEN '' ELSE ' resolved' END \
         FROM alert ORDER BY opened_at, kind"
    );
    rows.iter().map(|row| row.get(0)).collect()
}

/// Events of the outbox, in order.
async fn told(cell: &Cell) -> Vec<String> {
    rows!(cell, "SELECT event FROM alert_delivery ORDER BY sequence").iter().map(|row| row.get(0)).collect()
}

async fn cell() -> (Cell, store::fence::Term) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    (cell, term)
}

#[tokio::test]
async fn a_failed_run_is_told_once_and_its_recovery() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { failed: true, ..On::default() })).await;
    let other = cell.job("quiet", &asking(On::default())).await;
    for job in [job, other] {
        cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    }
    assert_eq!(cell.check(term, 66).await.deliveries, 1);
    assert_eq!(cell.check(term, 67).await.deliveries, 0, "the same end is looked at again, and not told");
    cell.end(job, 120, "TIMED_OUT", "MAX_RUNTIME", 125).await;
    assert_eq!(cell.check(term, 126).await.deliveries, 0, "one alert while it is open");
    assert_eq!(cell.number("SELECT count FROM alert").await, 2);
    cell.success(job, 180, 185).await;
    assert_eq!(cell.check(term, 186).await.resolved, 1);
    assert_eq!(told(&cell).await, ["OPENED", "RESOLVED"]);
    cell.end(job, 240, "FAILED", "WORK_FAILED", 245).await;
    assert_eq!(cell.check(term, 246).await.opened, 1, "what fails after that is another one");
}

#[tokio::test]
async fn an_end_that_is_committed_late_is_told_and_a_new_leader_repeats_nothing() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { failed: true, ..On::default() })).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    assert_eq!(cell.check(term, 90).await.opened, 1);
    let successor = cell.lead(2).await;
    assert_eq!(cell.check(successor, 91).await.opened, 0);
    let other = cell.job("late", &asking(On { failed: true, ..On::default() })).await;
    cell.end(other, 120, "FAILED", "WORK_FAILED", 121).await;
    rows!(cell, "UPDATE outcome_watch SET through = $1", noon(150));
    assert_eq!(cell.check(successor, 151).await.opened, 1, "it was written 30 s before the place of looking");
}

#[tokio::test]
async fn failures_in_a_row_are_counted_in_the_ledger() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { failures_in_row: Some(3), ..On::default() })).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    cell.end(job, 120, "LOST", "WORKER_LOST", 125).await;
    cell.success(job, 180, 185).await;
    cell.end(job, 240, "FAILED", "WORK_FAILED", 245).await;
    cell.end(job, 300, "SKIPPED", "OVERLAP", 300).await;
    cell.end(job, 360, "FAILED", "WORK_FAILED", 365).await;
    assert_eq!(
        cell.check(term, 366).await.opened,
        0,
        "a success in between, and a skipped one is no failure"
    );
    // Another one leads by now: it remembers nothing.
    let successor = cell.lead(2).await;
    cell.end(job, 420, "FAILED", "WORK_FAILED", 425).await;
    assert_eq!(cell.check(successor, 426).await.opened, 1);
    let detail: String = rows!(cell, "SELECT detail FROM alert")[0].get(0);
    assert!(detail.starts_with("3 in a row"), "{detail}");
}

#[tokio::test]
async fn a_slow_run_is_told_while_it_runs_and_when_it_has_ended_between_two_looks() {
    let (cell, term) = cell().await;
    let on = On { runtime_over: Some(Time::from_secs(30)), ..On::default() };
    let running = cell.job("running", &asking(on.clone())).await;
    let ended = cell.job("ended", &asking(on)).await;
    cell.run(running, 60, "PLANNED", None, None).await;
    rows!(
        cell,
        "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, accepted_at, generation, \
                                token, priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue) \
         VALUES ($1, '00000000-0000-4000-8000-000000000001', $1, $1, $2, $2, $2, 1, 1, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, \
                 'default')",
        running.0,
        noon(60)
    );
    assert_eq!(cell.check(term, 89).await.opened, 0);
    cell.success(ended, 60, 91).await;
    rows!(cell, "UPDATE run SET accepted_at = scheduled_for WHERE job_id = $1", ended.0);
    assert_eq!(cell.check(term, 92).await.opened, 2);
    assert_eq!(cell.check(term, 93).await.opened, 0);
    assert_eq!(
        alerts(&cell).await,
        ["RUNTIME told resolved", "RUNTIME told"],
        "the one that was done is over"
    );
}

#[tokio::test]
async fn an_occurrence_that_was_skipped_by_overlap_is_told_and_one_that_was_missed_is_not() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { skipped_by_overlap: true, ..On::default() })).await;
    cell.end(job, 60, "SKIPPED", "MISSED", 61).await;
    assert_eq!(cell.check(term, 62).await.opened, 0);
    cell.end(job, 120, "SKIPPED", "OVERLAP", 121).await;
    assert_eq!(cell.check(term, 122).await.opened, 1);
    assert_eq!(alerts(&cell).await, ["SKIPPED_OVERLAP told"]);
}

#[tokio::test]
async fn who_asks_for_recoveries_hears_of_the_success_only() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { recovered: true, ..On::default() })).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    let failed = cell.check(term, 66).await;
    assert_eq!((failed.opened, failed.deliveries), (1, 0));
    cell.success(job, 120, 125).await;
    assert_eq!(cell.check(term, 126).await.deliveries, 1);
    assert_eq!(told(&cell).await, ["RESOLVED"]);
}

#[tokio::test]
async fn a_failure_and_the_deadline_that_passes_because_of_it_are_one_page() {
    let (cell, term) = cell().await;
    let mut both = definition("* * * * *", 30);
    both.alert.on.failed = true;
    let job = cell.job("invoices", &both).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    assert_eq!(cell.check(term, 66).await.deliveries, 1);
    let judged = cell.check(term, 94).await;
    assert_eq!((judged.missed, judged.opened, judged.deliveries), (1, 1, 0));
    assert_eq!(alerts(&cell).await, ["FAILED told", "NO_SUCCESS untold"]);
    // The next one is never planned: that is news, and told by the alert that nobody was told of.
    assert_eq!(cell.check(term, 154).await.deliveries, 1);
    assert_eq!(alerts(&cell).await, ["FAILED told", "NO_SUCCESS told"]);
    assert_eq!(told(&cell).await, ["OPENED", "OPENED"]);
    cell.success(job, 180, 185).await;
    assert_eq!(cell.check(term, 214).await.resolved, 2);
    assert_eq!(told(&cell).await, ["OPENED", "OPENED", "RESOLVED", "RESOLVED"]);
}

#[tokio::test]
async fn a_deadline_that_passed_tells_of_the_failure_that_comes_later() {
    let (cell, term) = cell().await;
    let mut both = definition("* * * * *", 30);
    both.alert.on.failed = true;
    let job = cell.job("invoices", &both).await;
    cell.run(job, 60, "PLANNED", None, None).await;
    assert_eq!(cell.check(term, 94).await.deliveries, 1);
    cell.end(job, 60, "FAILED", "WORK_FAILED", 99).await;
    assert_eq!(cell.check(term, 100).await.deliveries, 0);
    assert_eq!(alerts(&cell).await, ["NO_SUCCESS told", "FAILED untold"]);
}

#[tokio::test]
async fn failures_in_a_row_are_told_beside_a_single_one() {
    let (cell, term) = cell().await;
    let on = On { failed: true, failures_in_row: Some(2), ..On::default() };
    let job = cell.job("invoices", &asking(on)).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    assert_eq!(cell.check(term, 66).await.deliveries, 1);
    cell.end(job, 120, "FAILED", "WORK_FAILED", 125).await;
    assert_eq!(cell.check(term, 126).await.deliveries, 1);
    let severities = rows!(cell, "SELECT severity FROM alert ORDER BY opened_at");
    let severities: Vec<String> = severities.iter().map(|row| row.get(0)).collect();
    assert_eq!(severities, ["WARNING", "CRITICAL"], "it escalates");
}

#[tokio::test]
async fn nobody_is_told_of_a_failure_of_a_job_that_is_paused_deleted_disabled_or_run_by_hand() {
    let (cell, term) = cell().await;
    let on = On { failed: true, ..On::default() };
    let paused = cell.job("paused", &asking(on.clone())).await;
    let deleted = cell.job("deleted", &asking(on.clone())).await;
    let disabled = cell.job("disabled", &asking(on.clone())).await;
    for job in [paused, deleted, disabled] {
        cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    }
    cell.clock_to(66).await;
    cell.pause(paused).await;
    cell.delete(deleted).await;
    let mut quiet = asking(on.clone());
    quiet.alert.disabled = true;
    cell.change(disabled, &quiet).await;
    let by_hand = cell.job("by-hand", &asking(on)).await;
    rows!(
        cell,
        "INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, attempt, state, reason, final) \
         VALUES ($1, '00000000-0000-4000-8000-000000000001', $2::timestamptz + interval '5 milliseconds', $2, 1, 'FAILED', \
                 'WORK_FAILED', true)",
        by_hand.0,
        noon(66)
    );
    assert_eq!(cell.check(term, 70).await.opened, 0);
}
