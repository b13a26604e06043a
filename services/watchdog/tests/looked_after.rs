//! Alerts in the hands of people: repeated until somebody acknowledges them, silenced, resolved; and check-ins. Over a clock
//! that the test moves.

#![allow(clippy::expect_used, reason = "a test fails by a panic that names the cause")]

mod support;

use model::alert::life::{Event, Telling};
use model::check_in::{Definition, Report};
use model::ids::TenantId;
use model::severity::Severity;
use model::system_health::Trouble;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use store::alert_delivery::{self, Delivery, Event as Told};
use store::alert_group;
use store::check_in::{self, Change, Expected, Noted};
use store::fence::Term;
use store::system_alert::{self, New};
use support::{Cell, LIMITS, definition, noon, rows};
use uuid::Uuid;
use watchdog::check::{self, Memory};
use watchdog::message::Message;

const HOUR: i64 = 3_600;

/// A cell with one open alert about a job that is not planned each day, told at noon and 74 s.
async fn with_open_alert(repeat: Option<u64>) -> (Cell, Term, Uuid) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let mut daily = definition("1 12 * * *", 10);
    daily.alert.repeat = repeat.map(Time::from_secs);
    cell.job("invoices", &daily).await;
    assert_eq!(cell.check(term, 74).await.deliveries, 1);
    let id = rows!(cell, "SELECT id FROM alert")[0].get(0);
    (cell, term, id)
}

/// What the registry does when somebody does something with an alert.
async fn act(cell: &Cell, id: Uuid, event: Event, what: &str) {
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let locked = store::alert_life::lock(&tx, TenantId::DEFAULT, id).await.expect("asked").expect("found");
    let step = locked.life.on(event, locked.at, Time::ZERO).expect("possible");
    let to_tell = step.telling.filter(|telling| *telling != Telling::Opened);
    store::alert_life::live_on(&tx, &[(id, step.life, to_tell)], Some("ann")).await.expect("written");
    store::alert_life::record(&tx, &[(id, what, "at it")], Some("ann")).await.expect("recorded");
    tx.commit().await.expect("committed");
}

async fn told(cell: &Cell) -> Vec<String> {
    rows!(cell, "SELECT event FROM alert_delivery ORDER BY sequence").iter().map(|row| row.get(0)).collect()
}

async fn history(cell: &Cell) -> Vec<String> {
    let rows = rows!(cell, "SELECT what || coalesce(' by ' || actor, '') FROM alert_event ORDER BY sequence");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn an_alert_is_repeated_every_four_hours_until_somebody_acknowledges_it() {
    let (cell, term, id) = with_open_alert(None).await;
    assert_eq!(cell.check(term, 4 * HOUR + 70).await.deliveries, 0);
    assert_eq!(cell.check(term, 4 * HOUR + 80).await.deliveries, 1);
    let successor = cell.lead(2).await;
    assert_eq!(cell.check(successor, 4 * HOUR + 90).await.deliveries, 0, "a failover repeats nothing");
    assert_eq!(cell.check(successor, 8 * HOUR + 90).await.deliveries, 1);
    act(&cell, id, Event::Acknowledge, "ACKNOWLEDGED").await;
    assert_eq!(cell.check(successor, 8 * HOUR + 100).await.deliveries, 1, "who knows of it is told");
    assert_eq!(cell.check(successor, 23 * HOUR).await.deliveries, 0);
    // A repetition takes the place of the one before it.
    assert_eq!(told(&cell).await, ["OPENED", "REPEATED", "ACKNOWLEDGED"]);
    assert_eq!(history(&cell).await, ["OPENED", "REPEATED", "REPEATED", "ACKNOWLEDGED by ann"]);
    let body: String = rows!(cell, "SELECT body FROM alert_delivery WHERE event = 'ACKNOWLEDGED'")[0].get(0);
    assert!(body.contains("ann looks after it: invoices"), "{body}");
}

/// Opens an alert about the system that stands by itself, or one that stands for the jobs which it makes late.
async fn open_about_the_system(cell: &Cell, is_group: bool) -> Uuid {
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let id = if is_group {
        let group = (TenantId::DEFAULT, Trouble::NoTicker);
        alert_group::raise(&tx, &[group].into()).await.expect("raised")[&group]
    } else {
        let (id, tenant, kind) = (Uuid::new_v4(), TenantId::DEFAULT, Trouble::NoTicker);
        let new =
            New { id, tenant, kind, about: "", severity: Severity::Critical, count: 1, detail: "none leads" };
        system_alert::raise(&tx, new).await.expect("asked").expect("opened");
        id
    };
    let channel_id = rows!(cell, "SELECT id FROM alert_channel")[0].get(0);
    let body = Message::test(id, "oncall", noon(0)).body();
    let opening = Delivery { id: Uuid::new_v4(), alert_id: id, channel_id, event: Told::Opened, body };
    alert_delivery::insert(&tx, &[opening]).await.expect("stored");
    tx.commit().await.expect("committed");
    id
}

#[tokio::test]
async fn alerts_about_the_system_are_repeated_until_somebody_acknowledges_them_too() {
    for is_group in [false, true] {
        let cell = Cell::create().await;
        cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
        let term = cell.lead(1).await;
        cell.clock_to(0).await;
        let id = open_about_the_system(&cell, is_group).await;
        assert_eq!(cell.check(term, 4 * HOUR - 5).await.deliveries, 0);
        assert_eq!(cell.check(term, 4 * HOUR + 5).await.deliveries, 1);
        assert_eq!(cell.check(term, 8 * HOUR + 10).await.deliveries, 1);
        act(&cell, id, Event::Acknowledge, "ACKNOWLEDGED").await;
        assert_eq!(cell.check(term, 8 * HOUR + 20).await.deliveries, 1);
        assert_eq!(cell.check(term, 23 * HOUR).await.deliveries, 0);
        assert_eq!(told(&cell).await, ["OPENED", "REPEATED", "ACKNOWLEDGED"]);
    }
}

#[tokio::test]
async fn what_nobody_was_told_of_is_not_said_to_be_told_again() {
    let (cell, term, _) = with_open_alert(None).await;
    rows!(cell, "DELETE FROM alert_delivery");
    assert_eq!(cell.check(term, 4 * HOUR + 80).await.deliveries, 0);
    assert_eq!(history(&cell).await, ["OPENED"]);
}

#[tokio::test]
async fn one_that_is_not_to_be_repeated_is_not() {
    let (cell, term, _) = with_open_alert(Some(0)).await;
    assert_eq!(cell.check(term, 23 * HOUR).await.deliveries, 0);
}

#[tokio::test]
async fn a_silenced_alert_is_told_again_when_the_silence_is_over() {
    let (cell, term, id) = with_open_alert(Some(600)).await;
    act(&cell, id, Event::Silence(noon(HOUR)), "SILENCED").await;
    assert_eq!(cell.check(term, HOUR - 5).await.deliveries, 0);
    assert_eq!(cell.check(term, HOUR + 1).await.deliveries, 1);
    assert_eq!(cell.check(term, HOUR + 602).await.deliveries, 1, "and from then on as ever");
    assert_eq!(told(&cell).await, ["OPENED", "REPEATED"]);
}

#[tokio::test]
async fn one_that_is_resolved_by_hand_is_told_and_what_is_missed_after_that_opens_another() {
    let (cell, term, id) = with_open_alert(None).await;
    act(&cell, id, Event::Resolve, "RESOLVED").await;
    let told_of = cell.check(term, 80).await;
    assert_eq!((told_of.deliveries, told_of.resolved), (1, 0));
    assert_eq!(told(&cell).await, ["OPENED", "RESOLVED"]);
    assert_eq!(cell.check(term, 24 * HOUR + 74).await.opened, 1);
}

#[tokio::test]
async fn a_success_resolves_what_is_acknowledged_or_silenced_too() {
    for event in [Event::Acknowledge, Event::Silence(noon(HOUR))] {
        let (cell, term, id) = with_open_alert(None).await;
        act(&cell, id, event, "SILENCED").await;
        let job = rows!(cell, "SELECT job_id FROM alert")[0].get(0);
        cell.success(model::ids::JobId(job), 60, 80).await;
        assert_eq!(cell.check(term, 81).await.resolved, 1);
        assert_eq!(told(&cell).await.last().map(String::as_str), Some("RESOLVED"));
    }
}

/// Of what another alert has told already, the first news is told: not before its silence is over, and not to whom looks
/// after it.
#[tokio::test]
async fn what_nobody_was_told_of_is_told_after_its_silence_and_not_when_it_is_acknowledged() {
    for (event, deliveries) in [(Event::Silence(noon(HOUR)), 1), (Event::Acknowledge, 0)] {
        let cell = Cell::create().await;
        cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
        let term = cell.lead(1).await;
        let mut twice = definition("1,3 12 * * *", 30);
        twice.alert.on.failed = true;
        let job = cell.job("invoices", &twice).await;
        cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
        assert_eq!(cell.check(term, 66).await.deliveries, 1);
        assert_eq!(cell.check(term, 94).await.deliveries, 0, "the failure was told");
        let untold = rows!(cell, "SELECT id FROM alert WHERE untold")[0].get(0);
        act(&cell, untold, event, "SILENCED").await;
        let judged = cell.check(term, 214).await;
        assert_eq!((judged.missed, judged.deliveries), (1, 0), "{event:?}");
        assert_eq!(cell.check(term, HOUR - 5).await.deliveries, 0);
        assert_eq!(cell.check(term, HOUR + 1).await.deliveries, deliveries, "{event:?}");
        assert_eq!(cell.check(term, HOUR + 2).await.deliveries, 0);
        let of_it = rows!(cell, "SELECT body FROM alert_delivery WHERE alert_id = $1", untold);
        assert_eq!(of_it.len(), deliveries, "{event:?}");
        for row in of_it {
            let body: String = row.get(0);
            assert!(
                body.contains("alert.opened") && body.contains("2 occurrences without success"),
                "{body}"
            );
        }
    }
}

fn hourly() -> Definition {
    Definition {
        schedule: Some("0 * * * *".to_owned()),
        timezone: "UTC".to_owned(),
        period: None,
        grace: Time::from_secs(60),
        max_runtime: Some(Time::from_secs(600)),
        channels: vec!["oncall".to_owned()],
        repeat: None,
        severity: Severity::Warning,
        labels: BTreeMap::new(),
    }
}

/// A cell with a check-in whose token is `secret`; the first one is expected at one o'clock.
async fn with_check_in(definition: &Definition) -> (Cell, Term, Uuid) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let id = Uuid::new_v4();
    let judge_at = Some(noon(HOUR + 63));
    let new = check_in::New { id, name: "backup", definition, secret: "secret", judge_at };
    check_in::insert(&tx, TenantId::DEFAULT, noon(0), &new).await.expect("stored");
    tx.commit().await.expect("committed");
    (cell, term, id)
}

async fn report(cell: &Cell, second: i64, what: Report, message: &str) -> Noted {
    cell.clock_to(second).await;
    check_in::report(&cell.store, "secret", what, message).await.expect("asked")
}

#[tokio::test]
async fn a_check_in_that_stays_away_is_told_once_and_its_return() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    assert_eq!(report(&cell, HOUR + 50, Report::Success, "").await, Noted::Yes("backup".to_owned()));
    assert_eq!(cell.check(term, HOUR + 64).await.opened, 0);
    assert_eq!(cell.check(term, 2 * HOUR + 62).await.opened, 0);
    assert_eq!(cell.check(term, 2 * HOUR + 64).await.deliveries, 1);
    let successor = cell.lead(2).await;
    assert_eq!(cell.check(successor, 2 * HOUR + 65).await.deliveries, 0);
    assert_eq!(cell.check(successor, 3 * HOUR + 64).await.deliveries, 0, "one alert while it is open");
    assert_eq!(cell.number("SELECT count FROM alert").await, 2);
    report(&cell, 3 * HOUR + 100, Report::Success, "").await;
    assert_eq!(cell.check(successor, 3 * HOUR + 101).await.resolved, 1);
    assert_eq!(told(&cell).await, ["OPENED", "RESOLVED"]);
    let body: String = rows!(cell, "SELECT body FROM alert_delivery WHERE event = 'OPENED'")[0].get(0);
    assert!(body.contains(r#""cause":"NO_CHECK_IN""#) && body.contains("backup: no check-in for"), "{body}");
}

#[tokio::test]
async fn a_reported_failure_is_told_at_once_and_the_success_that_stays_away_adds_no_page() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    report(&cell, HOUR + 5, Report::Fail, "disk full").await;
    assert_eq!(cell.check(term, HOUR + 6).await.deliveries, 1);
    let body: String = rows!(cell, "SELECT body FROM alert_delivery")[0].get(0);
    assert!(body.contains("it reported a failure: disk full"), "{body}");
    assert_eq!(cell.check(term, HOUR + 64).await.deliveries, 0);
    report(&cell, HOUR + 300, Report::Success, "").await;
    assert_eq!(cell.check(term, HOUR + 301).await.resolved, 1);
}

/// What can't be asked about runs keeps nobody from being told of check-ins.
#[tokio::test]
async fn a_check_in_is_missed_though_ends_of_runs_can_not_be_looked_at() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    rows!(cell, "ALTER TABLE outcome_watch RENAME TO gone");
    cell.clock_to(HOUR + 64).await;
    let cycle = check::run_once(&cell.store, term, LIMITS, &mut Memory::default(), || true, &|| None).await;
    assert!(cycle.is_err(), "the cycle has not gone well, and counts as none");
    assert_eq!(told(&cell).await, ["OPENED"]);
}

#[tokio::test]
async fn a_start_that_nothing_follows_is_told_when_its_maximum_runtime_is_over() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    report(&cell, 10, Report::Start, "").await;
    assert_eq!(cell.check(term, 612).await.opened, 0);
    assert_eq!(cell.check(term, 614).await.opened, 1);
    let cause: String = rows!(cell, "SELECT cause FROM alert")[0].get(0);
    assert_eq!(cause, "NOT_DONE");
}

async fn change(cell: &Cell, id: Uuid, second: i64, change: Change<'_>) {
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    check_in::change(&tx, id, noon(second), change).await.expect("changed");
    tx.commit().await.expect("committed");
}

#[tokio::test]
async fn what_is_due_stays_due_when_labels_or_channels_of_a_check_in_change() {
    let (cell, term, id) = with_check_in(&hourly()).await;
    let labelled = Definition { labels: [("team".to_owned(), "ops".to_owned())].into(), ..hourly() };
    let same = Change { definition: &labelled, paused: false, deleted: false, due: Expected::AsBefore };
    // A failure that nobody has looked at, a start, and a success that stays away.
    report(&cell, 100, Report::Fail, "").await;
    change(&cell, id, 101, same).await;
    assert_eq!(cell.check(term, 102).await.opened, 1);
    report(&cell, 200, Report::Start, "").await;
    assert_eq!(cell.check(term, 201).await.opened, 0);
    change(&cell, id, 300, same).await;
    cell.check(term, 804).await;
    change(&cell, id, HOUR + 30, same).await;
    cell.check(term, HOUR + 64).await;
    assert_eq!(cell.number("SELECT count FROM alert").await, 3);
    assert_eq!(told(&cell).await, ["OPENED"]);
}

#[tokio::test]
async fn one_that_is_paused_or_deleted_is_not_missed_and_its_alert_ends() {
    for deleted in [false, true] {
        let (cell, term, id) = with_check_in(&hourly()).await;
        assert_eq!(cell.check(term, HOUR + 64).await.opened, 1);
        let due = Expected::Anew { judge_at: None };
        change(&cell, id, HOUR + 70, Change { definition: &hourly(), paused: !deleted, deleted, due }).await;
        assert_eq!(cell.check(term, HOUR + 71).await.resolved, 1);
        assert_eq!(cell.check(term, 9 * HOUR).await.opened, 0);
        let noted = report(&cell, 9 * HOUR, Report::Fail, "").await;
        let expected = if deleted { Noted::Unknown } else { Noted::Yes("backup".to_owned()) };
        assert_eq!(noted, expected);
        assert_eq!(cell.check(term, 9 * HOUR + 5).await.opened, 0);
    }
}

#[tokio::test]
async fn reports_are_limited_and_only_the_newest_are_kept() {
    let (cell, ..) = with_check_in(&hourly()).await;
    for _ in 0..60 {
        assert_eq!(report(&cell, 10, Report::Success, "").await, Noted::Yes("backup".to_owned()));
    }
    assert_eq!(report(&cell, 10, Report::Success, "").await, Noted::TooMany);
    assert_eq!(
        check_in::report(&cell.store, "guess", Report::Success, "").await.expect("asked"),
        Noted::Unknown
    );
    rows!(
        cell,
        "INSERT INTO check_in_report (check_in_id, at, kind) \
         SELECT id, created_at - i * interval '1 minute', 'SUCCESS' FROM check_in, generate_series(1, 1000) i"
    );
    report(&cell, 100, Report::Success, &"x".repeat(20_000)).await;
    let kept = cell.number("SELECT count(*) FROM check_in_report").await;
    assert!((499..=501).contains(&kept), "{kept}");
    assert_eq!(cell.number("SELECT max(octet_length(message))::bigint FROM check_in_report").await, 10_240);
}

#[tokio::test]
async fn many_starts_drive_out_no_success_that_is_still_to_be_judged() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    report(&cell, HOUR - 55, Report::Success, "").await;
    rows!(
        cell,
        "INSERT INTO check_in_report (check_in_id, at, kind) \
         SELECT check_in_id, at + i * interval '10 milliseconds', 'START' FROM check_in_report, generate_series(1, 600) i"
    );
    report(&cell, HOUR + 20, Report::Start, "").await;
    assert_eq!(cell.check(term, HOUR + 64).await.opened, 0);
}

#[tokio::test]
async fn after_an_outage_of_the_watchdog_no_check_in_is_lost_and_none_that_came_is_told() {
    let (cell, term, _) = with_check_in(&hourly()).await;
    report(&cell, HOUR, Report::Success, "").await;
    report(&cell, 3 * HOUR, Report::Success, "").await;
    let summary = cell.check(term, 3 * HOUR + 64).await;
    assert_eq!((summary.opened, summary.resolved), (1, 1), "that of two o'clock, which the next one ended");
    assert_eq!(cell.number("SELECT count FROM alert").await, 1);
}
