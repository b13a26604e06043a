//! Who is not told: nobody is paged for what the owner of a job did to it, and told of its end at once.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on has failed")]

mod support;

use model::calendar::Calendars;
use model::ids::TenantId;
use model::job::Definition;
use model::policy::{CalendarRule, MisfirePolicy};
use model::severity::Severity;
use model::system_health::Trouble;
use std::time::Duration;
use store::system_alert::{self, New};
use support::{Cell, definition, noon, rows};
use uuid::Uuid;

const DAY: i64 = 86_400;

/// Due once a day, at 12:01, and to succeed within ten seconds.
fn daily() -> Definition {
    definition("1 12 * * *", 10)
}

#[tokio::test]
async fn nobody_is_paged_for_what_its_owner_did_to_a_job() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let paused = cell.job("paused", &daily()).await;
    let deleted = cell.job("deleted", &daily()).await;
    let changed = cell.job("changed", &daily()).await;
    let moved = cell.job("moved", &daily()).await;
    let ended = cell.job("ended", &daily()).await;
    let renamed = cell.job("renamed", &daily()).await;
    let late = cell.job("late", &daily()).await;
    let switched_off = cell.job("switched-off", &daily()).await;
    let holidays = cell.calendar("holidays", 1, &["2026-11-29"]).await;
    let calendars = Calendars { exclude: vec![holidays], ..Calendars::default() };
    cell.job("closed", &Definition { calendars, ..daily() }).await;
    let missed = cell.job("missed", &daily()).await;

    cell.clock_to(50).await;
    cell.change(changed, &definition("0 13 * * *", 10)).await;
    cell.change(moved, &Definition { timezone: "Asia/Tokyo".to_owned(), ..daily() }).await;
    cell.change(ended, &Definition { ends_at: Some(noon(55)), ..daily() }).await;
    cell.clock_to(61).await;
    cell.job("created-later", &daily()).await;
    cell.clock_to(65).await;
    cell.pause(paused).await;
    cell.delete(deleted).await;
    cell.change_name(renamed, Some("renamed-now"), &daily()).await;
    let mut off = daily();
    off.alert.disabled = true;
    cell.change(switched_off, &off).await;
    cell.success(renamed, 60, 66).await;
    cell.success(late, 60, 69).await;
    rows!(cell, "UPDATE run SET origin = 'CATCH_UP', due_at = $2 WHERE job_id = $1", late.0, noon(68));

    let summary = cell.check(term, 74).await;
    assert_eq!((summary.judged, summary.missed, summary.opened), (3, 1, 1), "{summary:?}");
    let told = rows!(cell, "SELECT job_id FROM verdict");
    assert_eq!(told[0].get::<_, uuid::Uuid>(0), missed.0);
}

#[tokio::test]
async fn what_a_calendar_moves_is_judged_where_it_was_moved_to() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let holidays = cell.calendar("holidays", 1, &["2026-11-29"]).await;
    let calendars = Calendars { exclude: vec![holidays], only: Vec::new(), rule: CalendarRule::NextDay };
    cell.job("sundays", &Definition { calendars, ..definition("1 12 * * SUN", 10) }).await;
    assert_eq!(cell.check(term, 74).await.judged, 0);
    let monday = cell.check(term, DAY + 74).await;
    assert_eq!((monday.judged, monday.missed), (1, 1));
    let occurrence = rows!(cell, "SELECT occurrence FROM verdict");
    assert_eq!(occurrence[0].get::<_, chrono::DateTime<chrono::Utc>>(0), noon(DAY + 60));
}

#[tokio::test]
async fn a_calendar_that_changes_counts_from_then_on_and_one_that_is_missing_stalls_no_other() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let closed = |version| Definition {
        calendars: Calendars { exclude: vec![version], ..Calendars::default() },
        ..definition("* * * * *", 10)
    };
    let job = cell.job("invoices", &closed(cell.calendar("holidays", 1, &["2026-11-29"]).await)).await;
    let broken = cell.job("broken", &definition("* * * * *", 10)).await;
    rows!(
        cell,
        "UPDATE job_revision SET definition = jsonb_set(definition, '{calendars}', \
                                               '{\"exclude\": [{\"name\": \"holidays\", \"version\": 9}]}') \
         WHERE job_id = $1",
        broken.0
    );
    cell.clock_to(90).await;
    cell.change(job, &closed(cell.calendar("holidays", 2, &["2026-12-24"]).await)).await;
    let summary = cell.check(term, 194).await;
    assert_eq!((summary.judged, summary.missed), (2, 2), "120 and 180");
}

#[tokio::test]
async fn a_job_that_is_gone_or_paused_when_it_is_judged_is_not_told_and_resolved_in_one_breath() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let deleted = cell.job("deleted", &definition("* * * * *", 10)).await;
    let paused = cell.job("paused", &definition("* * * * *", 10)).await;
    let opted_out = cell.job("opted-out", &definition("* * * * *", 10)).await;
    // The watchdog is away meanwhile: five occurrences of each have missed their deadline.
    cell.clock_to(311).await;
    cell.delete(deleted).await;
    cell.pause(paused).await;
    let mut off = definition("* * * * *", 10);
    off.alert.disabled = true;
    cell.change(opted_out, &off).await;

    let summary = cell.check(term, 320).await;
    assert_eq!((summary.judged, summary.withdrawn), (15, 15), "{summary:?}");
    assert_eq!((summary.missed, summary.opened, summary.resolved, summary.deliveries), (0, 0, 0, 0));
    assert_eq!(cell.number("SELECT count(*) FROM alert").await, 0);

    cell.clock_to(330).await;
    cell.resume(paused, false).await;
    let resumed = cell.check(term, 374).await;
    assert_eq!((resumed.judged, resumed.opened, resumed.deliveries), (1, 1, 1), "360 is watched again");
}

#[tokio::test]
async fn a_pause_resolves_the_alert_and_says_so_and_resuming_watches_from_then_on() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    cell.pause(job).await;
    let paused = cell.check(term, 75).await;
    assert_eq!((paused.resolved, paused.deliveries), (1, 1));
    let told = rows!(cell, "SELECT body FROM alert_delivery WHERE event = 'RESOLVED'");
    let body: String = told[0].get(0);
    assert!(body.contains("invoices was paused, after 1 occurrence without success"), "{body}");

    // Caught up or not, nobody waited for what was due in the pause.
    for (resumed_at, catches_up) in [(1_000, true), (1_960, false)] {
        cell.clock_to(resumed_at).await;
        cell.resume(job, catches_up).await;
        let resumed = cell.check(term, resumed_at + 1).await;
        assert_eq!((resumed.judged, resumed.opened), (0, 0));
        let next = cell.check(term, resumed_at + 40).await;
        assert_eq!((next.judged, next.opened), (1, 1), "{next:?}");
        cell.pause(job).await;
        assert_eq!(cell.check(term, resumed_at + 41).await.resolved, 1);
    }
}

#[tokio::test]
async fn a_pause_that_is_over_by_the_deadline_withdraws_only_what_it_cancelled() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let cancelled = cell.job("cancelled", &definition("1 12 * * *", 100)).await;
    let by_hand = cell.job("by-hand", &definition("1 12 * * *", 100)).await;
    cell.run(cancelled, 60, "PLANNED", None, None).await;
    cell.run(by_hand, 60, "PLANNED", None, None).await;
    cell.clock_to(65).await;
    cell.pause(cancelled).await;
    cell.pause(by_hand).await;
    assert_eq!(cell.check(term, 66).await.judged, 0);
    cell.clock_to(150).await;
    cell.resume(cancelled, false).await;
    cell.resume(by_hand, false).await;
    cell.run(cancelled, 60, "CANCELLED", Some("PAUSED"), Some(150)).await;
    cell.run(by_hand, 60, "CANCELLED", Some("REQUESTED"), Some(151)).await;
    let judged = cell.check(term, 164).await;
    assert_eq!((judged.judged, judged.withdrawn, judged.missed), (2, 1, 1), "{judged:?}");
    assert_eq!(cell.causes().await, ["CANCELLED"]);
}

/// What is no longer watched because it skips what it misses and has no deadline of its own, is so for open alerts too.
#[tokio::test]
async fn a_job_that_no_longer_has_a_deadline_keeps_no_alert_open() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 10)).await;
    assert_eq!(cell.check(term, 74).await.opened, 1);
    let mut skips = definition("* * * * *", 10);
    skips.misfire.policy = MisfirePolicy::Skip;
    cell.change(job, &skips).await;
    assert_eq!(cell.check(term, 75).await.resolved, 0, "it has a deadline of its own");
    skips.alert.success_within = None;
    assert_eq!(skips.success_within(), None::<Duration>);
    cell.change(job, &skips).await;
    assert_eq!(cell.check(term, 76).await.resolved, 1);
}

/// A job that is deleted at the very moment at which a deadline of a definition that was replaced is looked at: either the
/// look comes first, or the deletion is seen. Nobody is told of an alert that ends with the next look.
#[tokio::test]
async fn a_job_that_is_being_deleted_while_a_rest_of_it_is_due_waits_for_the_deletion() {
    let cell = Cell::create().await;
    let term = cell.lead(1).await;
    let job = cell.job("invoices", &definition("* * * * *", 600)).await;
    cell.clock_to(70).await;
    cell.change(job, &definition("0 0 1 1 *", 600)).await;
    assert_eq!(cell.check(term, 80).await.judged, 0);
    assert_eq!(rows!(cell, "SELECT FROM watch_rest").len(), 1, "what is left of the first definition");

    cell.clock_to(664).await;
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let locked = store::job_change::lock(&tx, &[job]).await.expect("locked");
    store::job_change::delete(&tx, locked.at, "test", &locked.jobs[0]).await.expect("deleted");
    assert_eq!(cell.check(term, 664).await.judged, 0, "it is left for the next look");
    tx.commit().await.expect("committed");
    let seen = cell.check(term, 665).await;
    assert_eq!((seen.missed, seen.opened, seen.resolved), (0, 0, 0), "{seen:?}");
}

/// Opens the alert that nobody works for the default queue.
async fn no_worker(cell: &Cell) {
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let new = New {
        id: Uuid::new_v4(),
        tenant: TenantId::DEFAULT,
        kind: Trouble::NoWorker,
        about: "default/default",
        severity: Severity::Critical,
        count: 1,
        detail: "no worker serves it",
    };
    system_alert::raise(&tx, new).await.expect("asked").expect("opened");
    tx.commit().await.expect("committed");
}

#[tokio::test]
async fn a_trouble_of_the_system_opens_no_group_for_a_job_that_was_told_of_before() {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let groups = "SELECT coalesce(sum(count), -1)::bigint FROM alert WHERE system_key = 'jobs'";
    let first = cell.job("first", &definition("* * * * *", 10)).await;
    cell.run(first, 60, "PLANNED", None, None).await;
    let opened = cell.check(term, 74).await;
    assert_eq!((opened.opened, opened.deliveries), (1, 1));

    no_worker(&cell).await;
    cell.run(first, 120, "PLANNED", None, None).await;
    let again = cell.check(term, 134).await;
    assert_eq!((again.missed, again.opened, again.deliveries), (1, 0, 0));
    assert_eq!(cell.number(groups).await, -1, "nobody belongs to it");

    let second = cell.job("second", &definition("* * * * *", 10)).await;
    for occurrence in [180, 240] {
        for job in [first, second] {
            cell.run(job, occurrence, "PLANNED", None, None).await;
        }
        cell.check(term, occurrence + 14).await;
        assert_eq!(cell.number(groups).await, 1, "a job whose alert opens with the trouble does");
    }
    let untold: Vec<_> = rows!(cell, "SELECT untold FROM alert WHERE subject = 'JOB' ORDER BY opened_at");
    let untold: Vec<bool> = untold.iter().map(|row| row.get(0)).collect();
    assert_eq!(untold, [false, true], "and is told with its group only");
}
