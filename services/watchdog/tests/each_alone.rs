//! What can't be read, or is not wanted, of one keeps no other from being judged and told; over a clock that the test moves.

#![allow(clippy::expect_used, reason = "a test fails by a panic that names the cause")]

mod support;

use model::alert::on::On;
use model::check_in::{Definition, Report};
use model::ids::{JobId, RunKey, TenantId};
use model::severity::Severity;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use store::check_in;
use store::fence::Term;
use support::{Cell, definition, noon, rows};
use uuid::Uuid;

const HOUR: i64 = 3_600;

async fn cell() -> (Cell, Term) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    (cell, term)
}

/// A check-in that is expected each hour, whose token is its name.
async fn check_in(cell: &Cell, name: &str) {
    let definition = Definition {
        schedule: Some("0 * * * *".to_owned()),
        timezone: "UTC".to_owned(),
        period: None,
        grace: Time::from_secs(60),
        max_runtime: None,
        channels: vec!["oncall".to_owned()],
        repeat: None,
        severity: Severity::Warning,
        labels: BTreeMap::from([("team".to_owned(), "storage".to_owned())]),
    };
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let judge_at = Some(noon(HOUR + 63));
    let new = check_in::New { id: Uuid::new_v4(), name, definition: &definition, secret: name, judge_at };
    check_in::insert(&tx, TenantId::DEFAULT, noon(0), &new).await.expect("stored");
    tx.commit().await.expect("committed");
}

async fn report(cell: &Cell, name: &str, second: i64) {
    cell.clock_to(second).await;
    check_in::report(&cell.store, name, Report::Success, "").await.expect("noted");
}

/// A later release may know of reports that this one does not.
#[tokio::test]
async fn a_report_that_can_not_be_read_keeps_no_other_check_in_from_being_judged() {
    let (cell, term) = cell().await;
    check_in(&cell, "newer").await;
    check_in(&cell, "backup").await;
    report(&cell, "newer", HOUR).await;
    rows!(cell, "ALTER TABLE check_in_report DROP CONSTRAINT check_in_report_kind_check");
    rows!(cell, "UPDATE check_in_report SET kind = 'LOG'");
    assert_eq!(cell.check(term, HOUR + 64).await.opened, 1);
    let told = rows!(cell, "SELECT c.name FROM alert a JOIN check_in c ON c.id = a.check_in_id");
    assert_eq!(told[0].get::<_, String>(0), "backup");
    // It stays where it is, and is looked at again.
    rows!(cell, "UPDATE check_in_report SET kind = 'FAIL'");
    assert_eq!(cell.check(term, HOUR + 700).await.opened, 1);
}

#[tokio::test]
async fn an_end_is_told_though_what_was_told_of_the_opening_can_not_be_read() {
    let (cell, term) = cell().await;
    check_in(&cell, "backup").await;
    assert_eq!(cell.check(term, HOUR + 64).await.deliveries, 1);
    let id: Uuid = rows!(cell, "SELECT id FROM alert")[0].get(0);
    rows!(cell, "UPDATE alert_delivery SET body = '{}'");
    report(&cell, "backup", HOUR + 100).await;
    let ended = cell.check(term, HOUR + 101).await;
    assert_eq!((ended.resolved, ended.deliveries), (1, 1));
    let body: String = rows!(cell, "SELECT body FROM alert_delivery WHERE event = 'RESOLVED'")[0].get(0);
    let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!(body["type"], "alert.resolved");
    let data = &body["data"];
    assert_eq!((&data["dedupKey"], &data["alertId"]), (&id.to_string().into(), &id.to_string().into()));
    assert_eq!((&data["subject"]["name"], &data["severity"]), (&"backup".into(), &"WARNING".into()));
    assert_eq!(data["labels"]["team"], "storage");
}

/// A later release may know of states that this one does not.
#[tokio::test]
async fn a_run_that_can_not_be_read_is_told_and_keeps_no_other_from_being_judged() {
    let (cell, term) = cell().await;
    rows!(cell, "ALTER TYPE run_state ADD VALUE 'ABANDONED'");
    rows!(cell, "ALTER TYPE run_reason ADD VALUE 'FORGOTTEN'");
    let newer = cell.job("newer", &definition("* * * * *", 10)).await;
    let failed = cell.job("failed", &definition("* * * * *", 10)).await;
    let sound = cell.job("sound", &definition("* * * * *", 10)).await;
    cell.run(newer, 60, "ABANDONED", Some("FORGOTTEN"), Some(65)).await;
    cell.run(failed, 60, "FAILED", Some("FORGOTTEN"), Some(65)).await;
    cell.success(sound, 60, 65).await;
    let judged = cell.check(term, 74).await;
    assert_eq!((judged.judged, judged.missed, judged.opened), (3, 2, 2));
    let cause = async |job: JobId| -> String {
        rows!(cell, "SELECT cause || ': ' || detail FROM alert WHERE job_id = $1", job.0)[0].get(0)
    };
    assert!(
        cause(newer).await.starts_with("UNREADABLE: this version of the watchdog"),
        "{}",
        cause(newer).await
    );
    assert!(cause(failed).await.starts_with("FAILED: attempt 1 failed"), "{}", cause(failed).await);
    cell.success(newer, 120, 125).await;
    cell.success(failed, 120, 125).await;
    cell.success(sound, 120, 125).await;
    assert_eq!(cell.check(term, 134).await.resolved, 2);
}

/// What never gets a verdict would be found with each look, and be among the first.
#[tokio::test]
async fn runs_of_jobs_whose_owners_want_no_alert_take_no_places_of_others() {
    let (cell, _) = cell().await;
    let runtime_over = Some(Time::from_secs(1));
    let on = On { failed: true, runtime_over, ..On::default() };
    let mut jobs = Vec::new();
    for disabled in [true, false] {
        let mut definition = definition("* * * * *", HOUR.unsigned_abs());
        definition.alert.disabled = disabled;
        definition.alert.on = on.clone();
        jobs.push(cell.job(if disabled { "quiet" } else { "loud" }, &definition).await);
    }
    for job in &jobs {
        cell.end(*job, 60, "FAILED", "WORK_FAILED", 65).await;
    }
    rows!(cell, "UPDATE run SET accepted_at = scheduled_for");
    // As what is committed late is found.
    rows!(
        cell,
        "INSERT INTO run_event (tenant_id, xid, at, phase, reason, job_id, scheduled_for, attempt) \
                 SELECT tenant_id, pg_current_xact_id(), finished_at, 'FAILED', 'WORK_FAILED', ARRAY[job_id], ARRAY[scheduled_for], ARRAY[1] \
                 FROM run"
    );
    cell.clock_to(70).await;
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let mut position = store::ends::position(&tx).await.expect("read");
    position.seen = Some("3:3:".to_owned());
    let wanted = RunKey::new(jobs[1], noon(60));
    let keys = |found: Vec<(RunKey, _)>| found.into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    let ended = store::ends::ended(&tx, noon(0), position.at, position.floor, 10).await.expect("asked");
    assert_eq!(keys(ended), [wanted]);
    let late = store::ends::ended_unseen(&tx, &position, position.at, 10).await.expect("asked");
    assert_eq!(keys(late), [wanted]);
    let slow = store::ends::slow(&tx, noon(0), noon(0), 10).await.expect("asked");
    assert_eq!(keys(slow), [wanted]);
}
