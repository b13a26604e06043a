//! Overlapping runs: queued, replaced, and asked for by a person, with real processes that must be gone when they are
//! replaced.

use chrono::{DateTime, TimeDelta, Timelike, Utc};
use harness::{Api, Cell, PATIENCE, instant, job, shell, token};
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::path::Path;
use std::time::Duration;

/// A schedule with exactly these occurrences today: the first `after` seconds from now, if the minute has room for them.
async fn seconds(cell: &mut Cell, offsets: &[i64]) -> (String, Vec<DateTime<Utc>>) {
    let now = cell.sql("SELECT to_char(esc_now(), 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')").await;
    let now: DateTime<Utc> = now.parse().expect("an instant");
    let last = offsets.iter().max().copied().unwrap_or(0);
    let mut first = now + TimeDelta::seconds(4);
    if i64::from(first.second()) + last > 59 {
        first += TimeDelta::seconds(60 - i64::from(first.second()));
    }
    let due: Vec<_> = offsets.iter().map(|offset| first + TimeDelta::seconds(*offset)).collect();
    let list: Vec<String> = due.iter().map(|at| at.second().to_string()).collect();
    (format!("{} {} {} * * *", list.join(","), first.minute(), first.hour()), due)
}

fn overlapping(name: &str, schedule: &str, overlap: &str, line: &str) -> Value {
    let mut job = job(name, schedule, shell(line));
    job["overlap"] = json!(overlap);
    job["maxRuntime"] = json!("600s");
    job
}

/// The job's runs of these occurrences, the earliest first.
async fn runs_at(api: &Api, job: &str, due: &[DateTime<Utc>]) -> Vec<Value> {
    let mut runs = api.runs(job).await;
    runs.retain(|run| due.contains(&instant(run, "scheduledFor")));
    runs.reverse();
    runs
}

/// Each run's state and reason.
fn ends(runs: &[Value]) -> Vec<(&str, &str)> {
    runs.iter()
        .map(|run| (run["state"].as_str().unwrap_or(""), run["reason"].as_str().unwrap_or("")))
        .collect()
}

/// The processes that a job wrote down, once there are `count`.
async fn processes(file: &Path, count: usize) -> Vec<u32> {
    wait_for(PATIENCE, "the run's processes", async || {
        let text = std::fs::read_to_string(file).ok()?;
        let ids: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (ids.len() >= count).then_some(ids)
    })
    .await
}

fn lives(process: u32) -> bool {
    // A zombie is a process that has ended.
    let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
    status.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

#[tokio::test]
async fn of_the_occurrences_that_come_during_a_long_run_one_waits_and_runs_after_it() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let gate = cell.folder().join("gate");
    let (schedule, due) = seconds(&mut cell, &[0, 1, 2, 3]).await;
    let line = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
    cell.api.create(overlapping("queued", &schedule, "QUEUE", &line)).await;
    let displaced = cell.api.wait_for_runs("queued", "SKIPPED", 2).await;
    assert_eq!(ends(&displaced), [("SKIPPED", "SUPERSEDED"); 2]);
    wait_for(PATIENCE, "the last one to be parked", async || {
        (cell.count("SELECT count(*) FROM run_parked").await == 1).then_some(())
    })
    .await;
    let runs = runs_at(&cell.api, "queued", &due).await;
    let states: Vec<_> = runs.iter().map(|run| run["state"].as_str().unwrap_or("")).collect();
    assert_eq!(states, ["RUNNING", "SKIPPED", "SKIPPED", "WAITING"]);
    assert_eq!(cell.count("SELECT count(*) FROM run_queue WHERE due_at <= esc_now()").await, 0);
    std::fs::write(&gate, "").expect("opened");
    cell.api.wait_for_runs("queued", "SUCCEEDED", 2).await;
    let runs = runs_at(&cell.api, "queued", &due).await;
    let skipped = ("SKIPPED", "SUPERSEDED");
    assert_eq!(ends(&runs), [("SUCCEEDED", ""), skipped, skipped, ("SUCCEEDED", "")]);
    assert!(token(&runs[3]) > token(&runs[0]));
    assert!(instant(&runs[3], "claimTime") >= instant(&runs[0], "finishTime"), "one at a time");
    cell.stop().await;
}

/// One run stops when it is told, one ignores it, one waits for its retry: each is replaced, and nothing of it is left.
#[tokio::test]
async fn a_replaced_run_is_gone_before_the_newer_one_starts() {
    let mut cell = Cell::start_with(|options| stack::dev::Options { agents: 2, ..options }).await;
    cell.leader().await;
    let (schedule, due) = seconds(&mut cell, &[0, 4]).await;
    for (name, first) in [
        ("obedient", "sleep 300 & echo $! >> PIDS; echo $$ >> PIDS; wait"),
        ("deaf", "trap '' TERM; sleep 300 & echo $! >> PIDS; echo $$ >> PIDS; while true; do sleep 1; done"),
        ("failing", "echo $$ >> PIDS; exit 3"),
    ] {
        let (mark, pids) = (cell.folder().join(format!("{name}-mark")), cell.folder().join(name));
        let first = first.replace("PIDS", &pids.display().to_string());
        let line = format!("if [ -e {0} ]; then exit 0; fi; touch {0}; {first}", mark.display());
        let mut job = overlapping(name, &schedule, "REPLACE", &line);
        job["retry"] = json!({"maxAttempts": 3, "backoff": "3600s", "backoffMax": "3600s"});
        cell.api.create(job).await;
    }
    let mut started = Vec::new();
    for (name, count) in [("obedient", 2), ("deaf", 2), ("failing", 1)] {
        started.extend(processes(&cell.folder().join(name), count).await);
    }
    for name in ["obedient", "deaf", "failing"] {
        cell.api.wait_for_runs(name, "SUCCEEDED", 1).await;
        let runs = runs_at(&cell.api, name, &due).await;
        assert_eq!(ends(&runs), [("CANCELLED", "REPLACED"), ("SUCCEEDED", "")], "{name}");
        assert!(token(&runs[1]) > token(&runs[0]), "{name}");
        assert!(instant(&runs[1], "claimTime") >= instant(&runs[0], "finishTime"), "{name}: one at a time");
        assert_eq!(runs[0]["attempt"], 1, "{name}: a replaced run is not tried again");
    }
    wait_for(Duration::from_secs(10), "the processes of the replaced runs to be gone", async || {
        started.iter().all(|process| !lives(*process)).then_some(())
    })
    .await;
    cell.stop().await;
}

/// A person's run that was asked to wait is not skipped, though the occurrences of the schedule are.
#[tokio::test]
async fn a_trigger_that_waits_runs_after_the_open_run() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let gate = cell.folder().join("gate");
    let (schedule, due) = seconds(&mut cell, &[0, 4]).await;
    let line = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
    cell.api.create(overlapping("alone", &schedule, "FORBID", &line)).await;
    cell.api.wait_for_runs("alone", "RUNNING", 1).await;
    let refused = cell.api.post("/v1/jobs/alone:trigger", json!({})).await.expect_err("a run is open");
    assert_eq!(refused.status, 409, "{refused:?}");
    cell.api.post("/v1/jobs/alone:trigger", json!({"wait": true})).await.expect("it may wait");
    let skipped = cell.api.wait_for_runs("alone", "SKIPPED", 1).await;
    assert_eq!(ends(&skipped), [("SKIPPED", "OVERLAP")]);
    wait_for(PATIENCE, "the trigger to be parked", async || {
        (cell.count("SELECT count(*) FROM run_parked WHERE origin = 'MANUAL'").await == 1).then_some(())
    })
    .await;
    std::fs::write(&gate, "").expect("opened");
    let done = cell.api.wait_for_runs("alone", "SUCCEEDED", 2).await;
    assert_eq!(done.iter().filter(|run| due.contains(&instant(run, "scheduledFor"))).count(), 1);
    assert!(done.iter().any(|run| run["origin"] == "MANUAL"), "{done:?}");
    cell.stop().await;
}
