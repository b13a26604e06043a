//! What owners asked to be told of beside a missed deadline, and that nothing is told twice; over a clock that the test
//! moves.

mod support;

use model::alert::on::On;
use model::ids::RunKey;
use model::job::Definition;
use model::run::{Reason, State};
use std::time::Duration as Time;
use store::run_end::{self, End};
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

/// A commit may hang for minutes, as behind a standby that is away, while other ends are committed and told.
#[tokio::test]
async fn an_end_whose_commit_hung_for_minutes_is_told_once_it_is_committed() {
    let (cell, term) = cell().await;
    let skipped = On { skipped_by_overlap: true, ..On::default() };
    let job = cell.job("invoices", &asking(skipped.clone())).await;
    let other = cell.job("reports", &asking(skipped)).await;
    cell.run(job, 60, "PLANNED", None, None).await;
    assert_eq!(cell.check(term, 61).await.opened, 0);

    let mut client = cell.store.client("test").await.expect("connected");
    let hanging = client.begin("test").await.expect("begun");
    let key = RunKey::new(job, noon(60));
    let (state, reason) = (State::Skipped, Some(Reason::Overlap));
    let ends = [End { key, attempt: None, state, reason, output: None }];
    assert!(run_end::end(&hanging, &ends).await.expect("ended").contains(&key));
    cell.end(other, 120, "SKIPPED", "OVERLAP", 125).await;
    assert_eq!(cell.check(term, 126).await.opened, 1, "what began later is told first");
    assert_eq!(cell.check(term, 400).await.opened, 0);
    hanging.commit().await.expect("committed");
    assert_eq!(cell.check(term, 401).await.opened, 1, "five minutes after it was written");
    assert_eq!(cell.check(term, 402).await.opened, 0);
    assert_eq!(cell.check(cell.lead(2).await, 420).await.opened, 0);
}

/// The position may be of another server: a replica took its place, or it was restored.
#[tokio::test]
async fn what_another_server_has_seen_is_not_believed() {
    let (cell, term) = cell().await;
    let job = cell.job("invoices", &asking(On { failed: true, ..On::default() })).await;
    for (second, foreign) in [
        (60, "UPDATE outcome_watch SET server = 1, seen = '3:3:'"),
        (120, "UPDATE outcome_watch SET seen = '900000000000:900000000000:'"),
    ] {
        assert_eq!(cell.check(term, second - 1).await.opened, 0);
        rows!(cell, foreign);
        cell.end(job, second, "FAILED", "WORK_FAILED", second).await;
        assert_eq!(cell.check(term, second + 1).await.opened, 1, "{foreign}");
        cell.success(job, second + 1, second + 2).await;
        assert_eq!(cell.check(term, second + 3).await.resolved, 1);
    }
    let seen = "SELECT (pg_snapshot_xmax(seen::pg_snapshot) <= pg_snapshot_xmax(pg_current_snapshot()))::int::bigint FROM outcome_watch";
    assert_eq!(cell.number(seen).await, 1, "what is seen here is known again");
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
    // Both were opened by one statement, in no order of ours.
    let mut found = alerts(&cell).await;
    found.sort();
    assert_eq!(found, ["RUNTIME told", "RUNTIME told resolved"], "the one that was done is over");
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
async fn a_recovery_is_told_to_whoever_wants_it_when_the_job_names_no_channel_that_there_is() {
    for named in [&[] as &[&str], &["gone"]] {
        let (cell, term) = cell().await;
        let mut definition = asking(On { recovered: true, ..On::default() });
        definition.alert.channels = named.iter().map(|name| (*name).to_owned()).collect();
        let job = cell.job("invoices", &definition).await;
        cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
        assert_eq!(cell.check(term, 66).await.deliveries, 0);
        cell.success(job, 120, 125).await;
        assert_eq!(cell.check(term, 126).await.deliveries, 1, "{named:?}");
        assert_eq!(told(&cell).await, ["RESOLVED"], "{named:?}");
    }
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

/// Who wants only what is critical is not told of a failure; that others are is no reason to keep the deadline from them.
#[tokio::test]
async fn a_deadline_is_told_to_a_pager_that_did_not_want_the_warning() {
    let (cell, term) = cell().await;
    cell.channel("pager", "http://127.0.0.1:1/pager", None).await;
    let critical = r#"{"severities": ["CRITICAL"]}"#;
    rows!(cell, "UPDATE alert_channel SET accepts = $1::text::jsonb WHERE name = 'pager'", critical);
    let mut both = definition("* * * * *", 30);
    both.alert.channels.clear();
    both.alert.on.failed = true;
    let job = cell.job("invoices", &both).await;
    cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
    assert_eq!(cell.check(term, 66).await.deliveries, 1, "the warning");
    assert_eq!(cell.check(term, 94).await.deliveries, 2, "the deadline has passed");
    assert_eq!(alerts(&cell).await, ["FAILED told", "NO_SUCCESS told"]);
    cell.end(job, 120, "FAILED", "WORK_FAILED", 125).await;
    cell.check(term, 126).await;
    assert_eq!(cell.check(term, 154).await.deliveries, 0, "both are open, and told");
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

/// A sequence of numbers that is the same at each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

/// An hour of a job that is due each minute, with a deadline of 30 s: what becomes of each run, when somebody looks, who
/// leads and what people do with alerts is diced.
async fn live(seed: u64) {
    let (cell, mut term) = cell().await;
    let mut dice = Dice(seed);
    let mut both = definition("* * * * *", 30);
    both.alert.on = On { failed: true, skipped_by_overlap: true, ..On::default() };
    let job = cell.job("invoices", &both).await;
    let (mut failed, mut succeeded, mut revision) = (0, 0, 1);
    for minute in 1..=60 {
        let second = minute * 60;
        match dice.roll(6) {
            0 => {}
            1 => cell.end(job, second, "SKIPPED", "OVERLAP", second + 1).await,
            2 | 3 => {
                cell.end(job, second, "FAILED", "WORK_FAILED", second + 5).await;
                failed += 1;
            }
            _ => {
                cell.success(job, second, second + 5).await;
                succeeded += 1;
            }
        }
        if dice.roll(4) == 0 {
            continue; // nobody looks
        }
        if dice.roll(5) == 0 {
            revision += 1;
            term = cell.lead(revision).await;
        }
        for after in [6, 34] {
            cell.check(term, second + after).await;
        }
        if dice.roll(3) == 0 {
            rows!(
                cell,
                "UPDATE alert SET acknowledged_at = esc_now(), acknowledged_by = 'ann', next_repeat_at = NULL, \
                                  to_tell = 'ACKNOWLEDGED' \
                 WHERE resolved_at IS NULL AND acknowledged_at IS NULL AND NOT untold"
            );
        }
    }
    cell.success(job, 3_660, 3_661).await;
    let last = cell.check(term, 3_694).await;
    let again = cell.check(term, 3_695).await;
    assert_eq!((again.judged, again.opened, again.resolved, again.deliveries), (0, 0, 0, 0), "{last:?}");
    // Each occurrence has succeeded in time or is recorded, once for each thing that its owner wants to hear of.
    assert_eq!(cell.number("SELECT count(*) FROM verdict WHERE kind = 'NO_SUCCESS'").await, 60 - succeeded);
    assert_eq!(cell.number("SELECT count(*) FROM verdict WHERE kind = 'FAILED'").await, failed);
    // What an alert counts is what was recorded, and each recorded occurrence is in an alert that was told, or in one of
    // another kind that tells of it.
    let counted = "SELECT (SELECT sum(count) FROM alert)::bigint - (SELECT count(*) FROM verdict)";
    assert_eq!(cell.number(counted).await, 0);
    let unheard = "SELECT count(*) FROM (SELECT DISTINCT occurrence FROM verdict) v WHERE NOT EXISTS ( \
                   SELECT FROM alert a WHERE NOT a.untold AND v.occurrence BETWEEN a.first_occurrence AND a.last_occurrence)";
    assert_eq!(cell.number(unheard).await, 0);
    // Every alert has ended; who was told of its opening was told of its end, once, and nobody else.
    assert_eq!(cell.number("SELECT count(*) FROM alert WHERE resolved_at IS NULL").await, 0);
    let events = "SELECT (count(*) FILTER (WHERE event = 'OPENED') - count(*) FILTER (WHERE event = 'RESOLVED'))::bigint \
                  FROM alert_delivery";
    assert_eq!(cell.number(events).await, 0);
    let twice = "SELECT count(*) FROM (SELECT FROM alert_event WHERE what IN ('OPENED', 'RESOLVED') \
                 GROUP BY alert_id, what HAVING count(*) > 1) e";
    assert_eq!(cell.number(twice).await, 0);
    let untold = "SELECT count(*) FROM alert a JOIN alert_delivery d ON d.alert_id = a.id WHERE a.untold";
    assert_eq!(cell.number(untold).await, 0);
}

#[tokio::test]
async fn whatever_happens_each_occurrence_is_told_once_and_every_alert_ends() {
    for seed in 1..=8 {
        live(seed).await;
    }
}
