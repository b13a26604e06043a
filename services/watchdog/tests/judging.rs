//! What is judged, when, and by what: occurrences of a job against the ledger, over a clock that the test moves.

mod support;

use support::{Cell, LIMITS, definition, rows};
use watchdog::check::{self, Memory};

#[tokio::test]
async fn a_missing_row_opens_one_alert_and_a_later_success_resolves_it() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;

    let early = cell.check(term, 72).await;
    assert_eq!((early.judged, early.opened), (0, 0));
    let due = cell.check(term, 74).await;
    assert_eq!((due.judged, due.missed, due.opened, due.deliveries), (1, 1, 1, 1));
    let again = cell.check(term, 75).await;
    assert_eq!((again.judged, again.opened, again.deliveries), (0, 0, 0));

    cell.success(job, 120, 125).await;
    let resolved = cell.check(term, 126).await;
    assert_eq!((resolved.resolved, resolved.deliveries), (1, 1));
    let after = cell.check(term, 140).await;
    assert_eq!((after.judged, after.missed, after.resolved, after.deliveries), (1, 0, 0, 0));
}

#[tokio::test]
async fn every_cause_is_named_as_the_ledger_shows_it() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.run(job, 60, "FAILED", Some("WORK_FAILED"), Some(65)).await;
    rows!(
        cell,
        "INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, tail, error) \
         VALUES ($1, $2, 1, 3, '', 'no disk left')",
        job.0,
        support::noon(60)
    );
    cell.run(job, 120, "PLANNED", None, None).await;
    rows!(
        cell,
        "INSERT INTO run_lease (job_id, tenant_id, session_id, claim_id, scheduled_for, claimed_at, generation, token, \
                                priority, undelivered, lost, failed, attempt, connection, origin, exclusive, queue) \
         VALUES ($1, '00000000-0000-4000-8000-000000000001', $1, $1, $2, $2, 1, 1, 0, 0, 0, 0, 1, 1, 'SCHEDULE', true, \
                 'default')",
        job.0,
        support::noon(120)
    );
    cell.run(job, 180, "SKIPPED", Some("OVERLAP"), Some(180)).await;
    cell.run(job, 240, "PLANNED", None, None).await;
    cell.success(job, 300, 311).await;
    cell.run(job, 360, "CANCELLED", Some("REQUESTED"), Some(361)).await;
    cell.run(job, 420, "TIMED_OUT", Some("MAX_RUNTIME"), Some(425)).await;
    cell.run(job, 480, "LOST", Some("WORKER_LOST"), Some(485)).await;
    cell.success(job, 540, 550).await;

    let summary = cell.check(term, 554).await;
    assert_eq!((summary.judged, summary.missed), (9, 8));
    assert_eq!(
        cell.causes().await,
        ["FAILED", "RUNNING", "SKIPPED", "WAITING", "SUCCEEDED_LATE", "CANCELLED", "TIMED_OUT", "LOST"]
    );
}

#[tokio::test]
async fn what_a_failed_run_said_is_in_the_page() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.run(job, 60, "FAILED", Some("WORK_FAILED"), Some(65)).await;
    rows!(
        cell,
        "INSERT INTO run_output (job_id, scheduled_for, attempt, exit_status, tail, error) \
         VALUES ($1, $2, 1, 3, '', 'no disk left')",
        job.0,
        support::noon(60)
    );
    cell.check(term, 74).await;
    let body: String = rows!(cell, "SELECT body FROM alert_delivery")[0].get(0);
    assert!(body.contains("status 3: no disk left"), "{body}");
}

#[tokio::test]
async fn a_success_that_comes_after_the_deadline_resolves_the_alert_when_it_is_seen() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("daily", &definition("1 12 * * *", 10)).await;
    cell.run(job, 60, "PLANNED", None, None).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    cell.success(job, 60, 80).await;
    assert_eq!(cell.check(term, 81).await.resolved, 1);
}

#[tokio::test]
async fn a_late_success_is_told_and_resolved_at_once() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.success(job, 60, 72).await;
    let late = cell.check(term, 74).await;
    assert_eq!((late.opened, late.resolved), (1, 1));
}

#[tokio::test]
async fn an_alert_stays_open_while_misses_before_the_success_wait_for_their_judgement() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("each-minute", &definition("* * * * *", 130)).await;
    for missed in [60, 120] {
        cell.run(job, missed, "PLANNED", None, None).await;
    }
    cell.success(job, 180, 181).await;
    let first = cell.check(term, 60 + 134).await;
    assert_eq!((first.opened, first.resolved), (1, 0), "the second miss is not judged yet");
    let second = cell.check(term, 120 + 134).await;
    assert_eq!(
        (second.opened, second.resolved),
        (0, 1),
        "one alert for both, resolved by the next that succeeded"
    );
}

/// By a clock that was set back meanwhile, a run can end before its own second.
#[tokio::test]
async fn a_success_counts_for_its_own_occurrence_whatever_the_clock_said() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.success(job, 120, 119).await;
    let first = cell.check(term, 74).await;
    assert_eq!((first.judged, first.missed), (1, 1), "it is none of the minute before");
    let own = cell.check(term, 134).await;
    assert_eq!((own.judged, own.missed), (1, 0), "and in time for its own");
}

#[tokio::test]
async fn a_manual_success_satisfies_nothing() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    rows!(
        cell,
        "INSERT INTO run (job_id, tenant_id, scheduled_for, due_at, finished_at, generation, term, token, attempt, origin, \
                          state) \
         SELECT $1, '00000000-0000-4000-8000-000000000001', t, t, t, 1, 1, 1, 1, 'MANUAL', 'SUCCEEDED' \
         FROM unnest($2::timestamptz[]) AS t",
        job.0,
        [60, 75].map(|second| support::noon(second) + chrono::Duration::milliseconds(1)).to_vec()
    );
    let summary = cell.check(term, 80).await;
    assert_eq!((summary.missed, summary.opened, summary.resolved), (1, 1, 0));
}

#[tokio::test]
async fn a_success_that_is_run_again_stays_a_success() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.run(job, 60, "PLANNED", None, None).await;
    rows!(
        cell,
        "INSERT INTO run_outcome (job_id, tenant_id, scheduled_for, at, token, attempt, state, final) \
         VALUES ($1, '00000000-0000-4000-8000-000000000001', $2, $3, 1, 1, 'SUCCEEDED', false)",
        job.0,
        support::noon(60),
        support::noon(65)
    );
    let summary = cell.check(term, 74).await;
    assert_eq!((summary.judged, summary.missed, summary.opened), (1, 0, 0));
}

#[tokio::test]
async fn a_per_second_job_is_one_alert_with_a_count() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    cell.job("ticks", &definition("* * * * * *", 10)).await;
    let first = cell.check(term, 613).await;
    assert!(first.missed >= 600, "{first:?}");
    assert_eq!((first.opened, first.deliveries), (1, 1));
    let second = cell.check(term, 3_613).await;
    assert_eq!((second.opened, second.deliveries), (0, 0));
    let count = cell.number("SELECT count FROM alert").await;
    assert_eq!(count, cell.number("SELECT count(*) FROM verdict").await);
    assert!(count >= 3_600, "{count}");
}

#[tokio::test]
async fn after_an_outage_of_the_watchdog_nothing_is_lost_and_nothing_that_succeeded_is_told() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    for minute in 1..=30 {
        if minute != 20 {
            cell.success(job, minute * 60, minute * 60 + 5).await;
        }
    }
    let summary = cell.check(term, 30 * 60 + 14).await;
    assert_eq!((summary.judged, summary.missed, summary.opened, summary.resolved), (30, 1, 1, 1));
}

#[tokio::test]
async fn a_job_that_is_deleted_before_its_deadline_alerts_nobody() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.clock_to(65).await;
    cell.delete(job).await;
    let summary = cell.check(term, 500).await;
    assert_eq!((summary.judged, summary.opened), (0, 0));
}

#[tokio::test]
async fn deleting_a_job_resolves_its_alert() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    cell.delete(job).await;
    let summary = cell.check(term, 200).await;
    assert_eq!((summary.judged, summary.resolved), (0, 1));
}

#[tokio::test]
async fn a_changed_job_is_judged_by_the_definition_in_force_at_each_occurrence() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.clock_to(65).await;
    cell.change(job, &definition("*/5 * * * *", 10)).await;
    // 60 by the old one; 120, 180, 240 by nobody; 300 by the new one.
    let summary = cell.check(term, 314).await;
    assert_eq!((summary.judged, summary.missed), (2, 2));
}

#[tokio::test]
async fn a_shorter_deadline_counts_at_once_and_the_old_one_is_kept() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 3_600)).await;
    cell.clock_to(65).await;
    cell.change(job, &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 134).await.missed, 1, "the occurrence of 120");
    assert_eq!(cell.number("SELECT count(*) FROM watch_rest").await, 1);
    cell.check(term, 3_664).await;
    assert_eq!(cell.number("SELECT count(*) FROM watch_rest").await, 0);
    let first = rows!(cell, "SELECT deadline FROM verdict WHERE occurrence = $1", support::noon(60));
    assert_eq!(first[0].get::<_, chrono::DateTime<chrono::Utc>>(0), support::noon(3_660));
    // 60 and each minute from 120 to 3,600: nothing twice, nothing left out.
    assert_eq!(cell.number("SELECT count(*) FROM verdict").await, 60);
}

#[tokio::test]
async fn a_job_that_was_switched_off_and_on_again_is_watched_from_then_on() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let watched = definition("* * * * *", 10);
    let mut unwatched = watched.clone();
    unwatched.alert.disabled = true;
    let job = cell.job("invoices", &watched).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    cell.change(job, &unwatched).await;
    let off = cell.check(term, 1_000).await;
    assert_eq!((off.judged, off.resolved), (0, 1));
    cell.change(job, &watched).await;
    let on = cell.check(term, 1_100).await;
    assert_eq!((on.judged, on.opened), (2, 1), "1,020 and 1,080");
}

#[tokio::test]
async fn an_occurrence_before_the_creation_is_never_judged() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    cell.clock_to(61).await;
    cell.job("invoices", &definition("* * * * *", 10)).await;
    let summary = cell.check(term, 134).await;
    assert_eq!(summary.judged, 1, "120 alone");
}

#[tokio::test]
async fn a_job_that_can_not_be_used_stalls_no_other() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let broken = cell.job("broken", &definition("* * * * *", 10)).await;
    cell.job("sound", &definition("* * * * *", 10)).await;
    rows!(cell, "UPDATE job_revision SET definition = '{}' WHERE job_id = $1", broken.0);
    let summary = cell.check(term, 74).await;
    assert_eq!((summary.judged, summary.opened), (1, 1));
}

#[tokio::test]
async fn a_deposed_watchdog_writes_nothing_and_its_successor_repeats_nothing() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    cell.job("invoices", &definition("* * * * *", 10)).await;
    let old = cell.lead(1).await;
    assert_eq!(cell.check(old, 74).await.opened, 1);
    let new = cell.lead(2).await;

    cell.clock_to(134).await;
    let refused = check::run_once(&cell.store, old, LIMITS, &mut Memory::default(), || true, &|| None).await;
    assert!(
        matches!(refused, Err(store::StoreError::Fenced { role: "watchdog", revision: 1 })),
        "{refused:?}"
    );
    assert_eq!(cell.number("SELECT count(*) FROM verdict").await, 1);

    assert_eq!(cell.check(new, 134).await.missed, 1);
    assert_eq!(cell.number("SELECT count(*) FROM verdict").await, 2);
    assert_eq!(cell.number("SELECT count(*) FROM alert_delivery").await, 1);
}

/// Even with its cursor set back, as by a restored database, an occurrence is told once.
#[tokio::test]
async fn an_occurrence_that_is_judged_twice_is_told_once() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    cell.job("invoices", &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    rows!(
        cell,
        "UPDATE watch_cursor SET judged_through = NULL, next_at = $1, judge_at = $1",
        support::noon(60)
    );
    let again = cell.check(term, 75).await;
    assert_eq!((again.judged, again.missed, again.deliveries), (1, 0, 0));
    assert_eq!(cell.number("SELECT count FROM alert").await, 1);
}

#[tokio::test]
async fn a_lease_that_is_no_longer_trusted_judges_nothing() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.clock_to(74).await;
    let summary = check::run_once(&cell.store, term, LIMITS, &mut Memory::default(), || false, &|| None)
        .await
        .expect("nothing to fail");
    assert_eq!(summary, check::Summary::default());
}

/// The clock may jump after it was looked at, in the middle of a cycle.
#[tokio::test]
async fn nothing_is_judged_by_a_clock_that_shows_more_than_it_may() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    cell.job("invoices", &definition("* * * * *", 10)).await;
    cell.clock_to(74).await;
    let shown = store::clock::now(&cell.store).await.expect("the time");
    let cycle = async |most: chrono::DateTime<chrono::Utc>| {
        let (latest, mut memory) = (move || Some(most), Memory::default());
        check::run_once(&cell.store, term, LIMITS, &mut memory, || true, &latest).await.expect("a cycle")
    };
    assert_eq!(cycle(shown - chrono::TimeDelta::seconds(1)).await.judged, 0);
    assert_eq!(cell.number("SELECT count(*) FROM verdict").await, 0);
    assert_eq!(cycle(shown + chrono::TimeDelta::hours(1)).await.opened, 1, "it was left, not lost");
}
