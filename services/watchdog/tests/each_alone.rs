//! What can't be read, or is not wanted, of one keeps no other from being judged and told; over a clock that the test moves.

#![allow(clippy::expect_used, reason = "a test fails by a panic that names the cause")]

mod support;

use model::alert::life::State;
use model::alert::on::On;
use model::check_in::Report;
use model::ids::{JobId, RunKey, TenantId};
use model::severity::Severity;
use std::collections::BTreeMap;
use std::time::Duration as Time;
use store::alert_life::{self, Filter};
use store::fence::Term;
use store::{alert_channel, alert_delivery};
use support::{Cell, check_in, definition, noon, rows};
use uuid::Uuid;

const HOUR: i64 = 3_600;

async fn cell() -> (Cell, Term) {
    let cell = Cell::create().await;
    cell.channel("oncall", "http://127.0.0.1:1/hook", None).await;
    let term = cell.lead(1).await;
    (cell, term)
}

async fn report(cell: &Cell, name: &str, second: i64) {
    cell.clock_to(second).await;
    store::check_in::report(&cell.store, name, Report::Success, "").await.expect("noted");
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
    let asking = store::ends::slow_jobs(&tx, None, 10).await.expect("asked");
    let asking: Vec<_> = asking.iter().filter_map(|job| Some((job.job_id, job.runtime_over?))).collect();
    assert_eq!(asking, [(jobs[1], Time::from_secs(1))]);
    let slow = store::ends::slow(&tx, &asking, noon(0), noon(0), 10).await.expect("asked");
    assert_eq!(keys(slow), [wanted]);
}

/// Two jobs of the same life, the first of which is made to be of a later release.
async fn newer_and_sound(cell: &Cell) -> [JobId; 2] {
    let mut jobs = Vec::new();
    for name in ["newer", "sound"] {
        let job = cell.job(name, &definition("* * * * *", 10)).await;
        cell.end(job, 60, "FAILED", "WORK_FAILED", 65).await;
        jobs.push(job);
    }
    [jobs[0], jobs[1]]
}

/// Makes the alerts of a job those of a later release.
async fn of_a_later_release(cell: &Cell, job: JobId) {
    rows!(
        cell,
        "ALTER TABLE alert DROP CONSTRAINT alert_severity_check, DROP CONSTRAINT alert_to_tell_check"
    );
    rows!(cell, "ALTER TABLE verdict DROP CONSTRAINT verdict_kind_check");
    rows!(cell, "UPDATE verdict SET kind = 'BUDGET' WHERE job_id = $1", job.0);
    rows!(
        cell,
        "UPDATE alert SET kind = 'BUDGET', cause = 'TOO_DEAR', severity = 'DIRE' WHERE job_id = $1",
        job.0
    );
}

/// Events of the outbox with kind and summary, in order.
async fn told(cell: &Cell) -> Vec<(String, String, String)> {
    let told = rows!(
        cell,
        "SELECT event, body::jsonb -> 'data' ->> 'kind', body::jsonb -> 'data' ->> 'summary' FROM alert_delivery ORDER BY sequence"
    );
    told.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

#[tokio::test]
async fn an_alert_of_an_unknown_kind_keeps_no_other_from_ending_and_ends_with_its_job() {
    let (cell, term) = cell().await;
    let [newer, sound] = newer_and_sound(&cell).await;
    assert_eq!(cell.check(term, 74).await.opened, 2);
    of_a_later_release(&cell, newer).await;
    for job in [newer, sound] {
        cell.success(job, 120, 125).await;
    }
    let ended = cell.check(term, 134).await;
    assert_eq!(
        (ended.resolved, ended.deliveries),
        (1, 1),
        "whether a success ends it, a later release knows"
    );
    let open = rows!(cell, "SELECT job_id FROM alert WHERE resolved_at IS NULL");
    assert_eq!(open.iter().map(|row| JobId(row.get(0))).collect::<Vec<_>>(), [newer]);
    let filter = Filter { states: vec![State::Open], ..Filter::default() };
    let listed =
        alert_life::page(&cell.store, TenantId::DEFAULT, (noon(HOUR), Uuid::max()), &filter, 10).await;
    let listed = listed.expect("listed");
    assert_eq!((listed[0].kind.as_str(), listed[0].severity), ("BUDGET", Severity::Critical));

    cell.clock_to(140).await;
    cell.pause(newer).await;
    assert_eq!(cell.check(term, 141).await.resolved, 1);
    let (event, kind, summary) = told(&cell).await.pop().expect("its end");
    assert_eq!((event.as_str(), kind.as_str()), ("RESOLVED", "BUDGET"));
    assert!(summary.starts_with("newer was paused, after 1 complaint since"), "{summary}");
}

#[tokio::test]
async fn an_opening_is_told_though_its_kind_is_unknown() {
    let (cell, term) = cell().await;
    let [newer, _] = newer_and_sound(&cell).await;
    assert_eq!(cell.check(term, 74).await.opened, 2);
    of_a_later_release(&cell, newer).await;
    // As after a silence: nobody was told of either.
    rows!(cell, "DELETE FROM alert_delivery");
    rows!(cell, "UPDATE alert SET untold = true, next_repeat_at = $1", noon(80));
    assert_eq!(cell.check(term, 81).await.deliveries, 2);
    let told = told(&cell).await;
    let of = |kind| told.iter().find(|(_, of, _)| of == kind).map(|(_, _, summary)| summary.as_str());
    assert!(of("NO_SUCCESS").is_some_and(|text| text.starts_with("sound: no success of")), "{told:?}");
    assert!(of("BUDGET").is_some_and(|text| text.starts_with("newer: 1 complaint,")), "{told:?}");
}

#[tokio::test]
async fn what_somebody_did_is_told_though_of_another_alert_it_can_not_be_read() {
    let (cell, term) = cell().await;
    let [newer, sound] = newer_and_sound(&cell).await;
    assert_eq!(cell.check(term, 74).await.opened, 2);
    of_a_later_release(&cell, newer).await;
    for (job, did) in [(newer, "PASSED_ON"), (sound, "ACKNOWLEDGED")] {
        rows!(
            cell,
            "UPDATE alert SET to_tell = $2, acknowledged_at = esc_now(), acknowledged_by = 'ann' WHERE job_id = $1",
            job.0,
            did
        );
    }
    assert_eq!(cell.check(term, 75).await.deliveries, 1);
    let (event, _, summary) = told(&cell).await.pop().expect("told");
    assert_eq!(event, "ACKNOWLEDGED");
    assert!(summary.starts_with("ann looks after it: sound"), "{summary}");
    assert_eq!(cell.number("SELECT count(*) FROM alert WHERE to_tell IS NOT NULL").await, 0, "once");
}

#[tokio::test]
async fn a_verdict_of_an_unknown_kind_keeps_no_deadline_from_being_told() {
    let (cell, term) = cell().await;
    let asking = |within| {
        let mut definition = definition("* * * * *", within);
        definition.alert.on = On { failed: true, ..On::default() };
        definition
    };
    let mut jobs = Vec::new();
    for name in ["newer", "sound"] {
        jobs.push(cell.job(name, &asking(10)).await);
    }
    for job in &jobs {
        cell.end(*job, 60, "FAILED", "WORK_FAILED", 65).await;
    }
    assert_eq!(cell.check(term, 66).await.opened, 2);
    rows!(cell, "ALTER TABLE verdict DROP CONSTRAINT verdict_kind_check");
    rows!(cell, "UPDATE verdict SET kind = 'BUDGET' WHERE job_id = $1", jobs[0].0);
    // That of the other one tells of its deadline; of this one, nobody knows what was told.
    let judged = cell.check(term, 74).await;
    assert_eq!((judged.missed, judged.opened), (2, 2));
    let untold = rows!(cell, "SELECT job_id, untold FROM alert WHERE kind = 'NO_SUCCESS'");
    let untold: BTreeMap<_, bool> = untold.iter().map(|row| (JobId(row.get(0)), row.get(1))).collect();
    assert_eq!(untold, BTreeMap::from([(jobs[0], false), (jobs[1], true)]));
}

#[tokio::test]
async fn what_a_definition_has_of_another_shape_keeps_no_other_job_from_being_told() {
    let (cell, term) = cell().await;
    let [newer, sound] = newer_and_sound(&cell).await;
    assert_eq!(cell.check(term, 74).await.opened, 2);
    let alert = r#"{"channels": {"first": "oncall"}, "disabled": "at night", "repeat": "hourly",
                    "on": {"runtime_over": "an hour", "recovered": "loudly"}}"#;
    rows!(
        cell,
        "UPDATE job SET definition = jsonb_set(definition, '{alert}', $2::text::jsonb) WHERE id = $1",
        newer.0,
        alert
    );
    rows!(cell, "UPDATE alert SET next_repeat_at = $1", noon(80));
    assert_eq!(cell.check(term, 81).await.deliveries, 2, "both are told again");
    for job in [newer, sound] {
        cell.success(job, 120, 125).await;
    }
    assert_eq!(cell.check(term, 134).await.resolved, 2);
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let soon = store::system::soon(&tx).await.expect("looked");
    assert_eq!(soon[0].jobs, 2, "{soon:?}");
    assert!(store::system_alert::job_channels(&tx, newer).await.expect("looked").is_empty());
}

#[tokio::test]
async fn a_channel_that_can_not_be_read_keeps_no_other_from_being_known() {
    let (cell, _) = cell().await;
    let newer = cell.channel_of_a_later_release("newer").await;
    let mut client = cell.store.client("test").await.expect("connected");
    let tx = client.begin("test").await.expect("begun");
    let found = alert_channel::of_tenants(&tx, &[TenantId::DEFAULT]).await.expect("asked");
    let names: Vec<_> = found.channels[&TenantId::DEFAULT].iter().map(|channel| &channel.name).collect();
    assert_eq!(names, ["oncall"]);
    assert_eq!(found.unreadable.keys().collect::<Vec<_>>(), [&newer]);
    // It is told through the outbox all the same: another watchdog may be able to.
    let routes = alert_delivery::routes(&tx, &[TenantId::DEFAULT]).await.expect("asked");
    let names: Vec<_> = routes[&TenantId::DEFAULT].iter().map(|route| &route.name).collect();
    assert_eq!(names, ["newer", "oncall"]);
}
