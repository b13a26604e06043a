//! A thousand jobs that fail, while whoever watches them is killed and frozen, and what it stands on is restarted. When they
//! succeed again, each occurrence has succeeded in time or is recorded, once; each alert was told once, and ended.

use harness::receiver::Receiver;
use harness::{Cell, PATIENCE};
use serde_json::json;
use stack::wait::wait_for;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::{Duration, Instant};

const JOBS: usize = 1_000;

/// Within which all jobs have succeeded again and everything is told: each is due once a minute.
const QUIET_WITHIN: Duration = Duration::from_secs(240);

#[derive(Debug, Clone, Copy)]
enum Fault {
    Kill(&'static str),
    Freeze(&'static str, Duration),
    RestartPostgres,
    RestartEtcd,
}

const FAULTS: [Fault; 7] = [
    Fault::Kill("watchdog-1"),
    Fault::Freeze("watchdog-2", Duration::from_secs(7)),
    Fault::RestartPostgres,
    Fault::Kill("watchdog-2"),
    Fault::Kill("dispatcher-1"),
    Fault::RestartEtcd,
    Fault::Kill("ticker-1"),
];

/// Between the ends of two faults.
const BETWEEN: Duration = Duration::from_secs(6);

#[tokio::test]
async fn a_minute_of_faults_loses_and_doubles_no_alert() {
    soak(Duration::from_secs(60)).await;
}

#[tokio::test]
#[ignore = "takes a quarter of an hour: run it before a release, with --ignored"]
async fn ten_minutes_of_faults_lose_and_double_no_alert() {
    soak(Duration::from_secs(600)).await;
}

async fn soak(length: Duration) {
    let mut cell = Cell::start_with(|options| stack::dev::Options { watchdogs: 2, ..options }).await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": oncall.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    let mark = cell.folder().join("repaired");
    let jobs = cell.folder().join("jobs.yaml");
    std::fs::write(&jobs, written(&format!("test -e {}", mark.display()))).expect("written");
    cell.prints(&["apply", "-f", &jobs.display().to_string()]);

    let began = Instant::now();
    for fault in FAULTS.iter().cycle() {
        if began.elapsed() >= length {
            break;
        }
        inflict(&mut cell, *fault).await;
        tokio::time::sleep(BETWEEN).await; // the rhythm of the faults, not a wait for anything
    }
    std::fs::write(&mark, "").expect("repaired");
    let opened = "SELECT count(DISTINCT job_id) FROM alert WHERE subject = 'JOB'";
    assert_eq!(cell.count(opened).await, i64::try_from(JOBS).expect("few"), "each has failed");
    let open = "SELECT count(*) FROM alert WHERE subject = 'JOB' AND resolved_at IS NULL";
    wait_for(QUIET_WITHIN, "every alert to end", async || (cell.count(open).await == 0).then_some(())).await;
    let owed = "SELECT count(*) FROM alert_delivery WHERE delivered_at IS NULL";
    wait_for(PATIENCE, "all of it to be told", async || (cell.count(owed).await == 0).then_some(())).await;
    assert_recorded_once(&mut cell).await;
    assert_told_once(&oncall);
    cell.stop().await;
}

/// Jobs of which each is due once a minute, as many at one second as at another.
fn written(line: &str) -> String {
    let mut text = String::new();
    for index in 0..JOBS {
        let job = json!({
            "kind": "Job", "name": format!("job-{index}"), "schedule": format!("{} * * * * *", index % 60),
            "maxRuntime": "60s", "overlap": "ALLOW", "run": {"exec": {"shell": line}},
            "alert": {"successWithin": "10s", "channels": ["oncall"], "on": {"failed": true}},
        });
        let _ = writeln!(text, "---\n{job}"); // JSON is YAML
    }
    text
}

async fn inflict(cell: &mut Cell, fault: Fault) {
    match fault {
        Fault::Kill(name) => {
            cell.stack.service(name).expect("of the cell").process().kill().expect("killed");
            cell.stack.restart(name).await.expect("it starts again");
        }
        Fault::Freeze(name, time) => {
            cell.stack.service(name).expect("of the cell").process().stop().expect("frozen");
            tokio::time::sleep(time).await; // the fault itself, not a wait for anything
            cell.stack.service(name).expect("of the cell").process().cont().expect("thawed");
        }
        Fault::RestartPostgres => {
            cell.stack.postgres().restart(stack::postgres::Stop::Immediate).await.expect("it starts again");
        }
        Fault::RestartEtcd => cell.stack.etcd().restart().await.expect("it starts again"),
    }
}

/// What the database says of it.
async fn assert_recorded_once(cell: &mut Cell) {
    for (what, wrong) in [
        (
            "an occurrence that was judged either succeeded in time or is recorded",
            "SELECT count(*) FROM job j JOIN watch_cursor w ON w.job_id = j.id
             CROSS JOIN LATERAL generate_series(
                 date_trunc('minute', j.created_at)
                     + split_part(j.definition ->> 'schedule', ' ', 1)::int * interval '1 second',
                 w.judged_through, interval '1 minute') t
             WHERE t > j.created_at
               AND EXISTS (SELECT FROM run r WHERE r.job_id = j.id AND r.scheduled_for = t AND r.state = 'SUCCEEDED'
                                               AND r.finished_at <= t + interval '10 seconds')
                   = EXISTS (SELECT FROM verdict v WHERE v.job_id = j.id AND v.occurrence = t AND v.kind = 'NO_SUCCESS')",
        ),
        (
            "a run that failed is recorded",
            "SELECT count(*) FROM run_outcome o
             WHERE o.final AND o.state IN ('FAILED', 'TIMED_OUT', 'LOST')
               AND NOT EXISTS (SELECT FROM verdict v WHERE v.job_id = o.job_id AND v.occurrence = o.scheduled_for
                                                       AND v.kind = 'FAILED')",
        ),
        (
            "alerts count what is recorded",
            "SELECT (SELECT sum(count) FROM alert WHERE subject = 'JOB')::bigint - (SELECT count(*) FROM verdict)",
        ),
        (
            "nothing happened twice to an alert",
            "SELECT count(*) FROM (SELECT FROM alert_event WHERE what IN ('OPENED', 'RESOLVED')
                                   GROUP BY alert_id, what HAVING count(*) > 1) e",
        ),
        (
            "an opening is followed by an end on the same channel",
            "SELECT count(*) FROM alert_delivery d JOIN alert a ON a.id = d.alert_id
             WHERE a.subject = 'JOB' AND d.event = 'OPENED'
               AND NOT EXISTS (SELECT FROM alert_delivery e WHERE e.alert_id = d.alert_id
                                                              AND e.channel_id = d.channel_id AND e.event = 'RESOLVED')",
        ),
    ] {
        assert_eq!(cell.count(wrong).await, 0, "{what}");
    }
}

/// What people saw: of each alert one opening, then one end; what was sent again has the same id.
fn assert_told_once(oncall: &Receiver) {
    let mut seen: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
    for received in oncall.received() {
        let body = received.json();
        if body["data"]["subject"]["type"] != "JOB" {
            continue;
        }
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let of = seen.entry(text(&body["data"]["alertId"])).or_default();
        let event = (received.header("webhook-id").to_owned(), text(&body["type"]));
        if !of.contains(&event) {
            of.push(event);
        }
    }
    assert!(!seen.is_empty(), "somebody was told");
    for (alert, events) in seen {
        let events: Vec<_> = events.iter().map(|(_, event)| event.as_str()).collect();
        assert_eq!(events, ["alert.opened", "alert.resolved"], "{alert}");
    }
}
