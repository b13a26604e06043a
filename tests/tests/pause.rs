//! Pausing and resuming: what was due meanwhile is counted exactly, what waits is held, and what runs goes on.

use chrono::{DateTime, TimeDelta, Utc};
use harness::{Cell, PATIENCE, instant, job, names, noop, shell};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::wait::wait_for;

const POLICIES: [&str; 3] = ["SKIP", "ONCE", "CATCH_UP"];

/// Pauses a job and returns since when.
async fn pause(cell: &Cell, name: &str) -> DateTime<Utc> {
    let paused = cell.api.post(&format!("/v1/jobs/{name}:pause"), json!({})).await.expect("paused");
    instant(&paused, "pauseTime")
}

/// Resumes a job and returns when.
async fn resume(cell: &Cell, name: &str, catch_up: bool) -> DateTime<Utc> {
    let body = json!({ "catchUp": catch_up });
    let resumed = cell.api.post(&format!("/v1/jobs/{name}:resume"), body).await.expect("resumed");
    instant(&resumed, "updateTime")
}

/// A job of every second whose runs may run beside each other.
fn each_second(name: &str, policy: &str) -> Value {
    let mut job = job(name, "* * * * * *", noop());
    job["misfire"] =
        json!({ "policy": policy, "grace": "10s", "catchUpLimit": 500, "catchUpPerSecond": 100 });
    job["overlap"] = json!("ALLOW");
    job["alert"] = json!({ "disabled": true });
    job
}

/// How many seconds of a job after `from` and through `through` are runs, and how many are counted as missed.
async fn accounted(cell: &mut Cell, name: &str, from: DateTime<Utc>, through: DateTime<Utc>) -> (i64, i64) {
    let runs = format!(
        "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id
         WHERE j.name = '{name}' AND r.scheduled_for > '{from}' AND r.scheduled_for <= '{through}'"
    );
    let missed = format!(
        "SELECT coalesce(sum(m.count), 0) FROM misfire m JOIN job j ON j.id = m.job_id
         WHERE j.name = '{name}' AND m.first > '{from}' AND m.last <= '{through}'"
    );
    (cell.count(&runs).await, cell.count(&missed).await)
}

/// Waits until nothing of any job up to `through` is left to decide or to run.
async fn settled(cell: &mut Cell, through: DateTime<Utc>) {
    let left = format!(
        "SELECT (SELECT count(*) FROM job_cursor WHERE next_fire_at <= '{through}')
              + (SELECT count(*) FROM run WHERE state = 'PLANNED' AND scheduled_for <= '{through}')"
    );
    wait_for(PATIENCE, "everything to be settled", async || (cell.count(&left).await == 0).then_some(()))
        .await;
}

#[tokio::test]
async fn time_paused_is_not_missed_unless_it_is_caught_up() {
    let unguarded = "clock_jump_guard_ms = 0";
    let mut cell = Cell::start_with(|options| {
        options.setting(Role::Ticker, unguarded).setting(Role::Dispatcher, unguarded)
    })
    .await;
    cell.leader().await;
    let mut jobs = Vec::new();
    for policy in POLICIES {
        for catch_up in [false, true] {
            let name = format!("{}-{catch_up}", policy.to_lowercase().replace('_', "-"));
            cell.api.create(each_second(&name, policy)).await;
            jobs.push((name, policy, catch_up));
        }
    }
    for (name, ..) in &jobs {
        cell.api.wait_for_runs(name, "SUCCEEDED", 2).await;
    }
    let mut spans = Vec::new();
    for (name, ..) in &jobs {
        spans.push((pause(&cell, name).await, DateTime::UNIX_EPOCH));
    }
    // A minute passes, of which some seconds for real: the planner walks over the pause meanwhile.
    let shift = "UPDATE clock_shift SET shift = shift + interval '1 minute'";
    cell.sql(shift).await;
    let walked = format!(
        "SELECT count(*) FROM job_cursor WHERE next_fire_at <= '{}'",
        spans[0].0 + TimeDelta::seconds(55)
    );
    wait_for(PATIENCE, "the planner to walk on", async || (cell.count(&walked).await == 0).then_some(()))
        .await;
    for ((name, _, catch_up), span) in jobs.iter().zip(&mut spans) {
        let (runs, missed) = accounted(&mut cell, name, span.0, Utc::now() + TimeDelta::days(1)).await;
        assert_eq!((runs, missed), (0, 0), "{name} is paused");
        span.1 = resume(&cell, name, *catch_up).await;
    }
    for (name, ..) in &jobs {
        cell.api.wait_for_runs(name, "SUCCEEDED", 3).await;
    }
    let last = spans.iter().map(|span| span.1).max().expect("some");
    settled(&mut cell, last).await;

    for ((name, policy, catch_up), (paused, resumed)) in jobs.iter().zip(&spans) {
        let seconds = resumed.timestamp() - paused.timestamp();
        assert!(seconds >= 60, "{name}: {paused} to {resumed}");
        let (runs, missed) = accounted(&mut cell, name, *paused, *resumed).await;
        if !catch_up {
            assert_eq!((runs, missed), (0, 0), "{name}: time paused is no outage");
            continue;
        }
        assert_eq!(runs + missed, seconds, "{name}: each second is a run or counted as missed");
        match *policy {
            "CATCH_UP" => assert_eq!(missed, 0, "{name}"),
            // The last seconds are younger than their grace, and simply run.
            _ => assert!(missed >= 45, "{name}: {missed}"),
        }
    }
    let doubled =
        "SELECT count(*) FROM (SELECT 1 FROM run GROUP BY job_id, scheduled_for HAVING count(*) > 1) d";
    assert_eq!(cell.count(doubled).await, 0);
    // After it, each second has its run.
    for ((name, ..), (_, resumed)) in jobs.iter().zip(&spans) {
        let through = *resumed + TimeDelta::seconds(5);
        settled(&mut cell, through).await;
        let (runs, _) = accounted(&mut cell, name, *resumed, through).await;
        assert_eq!(runs, through.timestamp() - resumed.timestamp(), "{name}");
    }
    cell.stop().await;
}

#[tokio::test]
async fn what_runs_goes_on_and_a_retry_waits_for_the_resumption() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let gate = cell.folder().join("gate");
    let gated =
        format!("while [ ! -e {} ]; do sleep 0.1; done; test $ESCAPEMENT_ATTEMPT = 2", gate.display());
    let mut gated = job("gated", "0 0 1 1 *", shell(&gated));
    gated["retry"] = json!({ "maxAttempts": 2, "backoff": "1s" });
    cell.api.create(gated).await;
    cell.api.post("/v1/jobs/gated:trigger", json!({})).await.expect("triggered");
    cell.api.wait_for_runs("gated", "RUNNING", 1).await;
    pause(&cell, "gated").await;
    std::fs::write(&gate, "").expect("opened");
    cell.api.wait_for_runs("gated", "RETRYING", 1).await;
    let held = "SELECT count(*) FROM run_queue WHERE due_at = 'infinity' AND attempt = 1";
    wait_for(PATIENCE, "the retry to be held", async || (cell.count(held).await == 1).then_some(())).await;
    resume(&cell, "gated", false).await;
    let run = &cell.api.wait_for_runs("gated", "SUCCEEDED", 1).await[0];
    assert_eq!(run["attempt"], 2);
    cell.stop().await;
}

#[tokio::test]
async fn a_run_in_its_jitter_window_is_held_and_ends_with_the_resumption() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    // Each job has its own place in the spread: one of them is far enough from the occurrence to be caught there.
    for number in 0..6 {
        let mut spread = job(&format!("spread-{number}"), "*/20 * * * * *", noop());
        spread["jitter"] = json!("18s");
        cell.api.create(spread).await;
    }
    let waits = "SELECT j.name || ' ' || to_char(q.scheduled_for, 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')
                 FROM run_queue q JOIN job j ON j.id = q.job_id
                 WHERE q.scheduled_for <= esc_now() AND q.due_at > esc_now() + interval '3 s' LIMIT 1";
    let waiting = wait_for(PATIENCE, "a run in its jitter window", async || {
        let found = cell.sql(waits).await;
        (!found.is_empty()).then_some(found)
    })
    .await;
    let (name, at) = waiting.split_once(' ').expect("a job and an instant");
    pause(&cell, name).await;
    let held = format!("SELECT count(*) FROM run_queue WHERE due_at = 'infinity' AND scheduled_for = '{at}'");
    assert_eq!(cell.count(&held).await, 1);
    resume(&cell, name, false).await;
    let run = cell.api.get(&format!("/v1/jobs/{name}/runs/{at}")).await.expect("the run");
    assert_eq!((&run["state"], &run["reason"]), (&json!("CANCELLED"), &json!("PAUSED")));
    cell.stop().await;
}

#[tokio::test]
async fn a_backlog_stands_still_while_its_job_is_paused() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let created = cell.api.create(job("hourly", "0 * * * *", noop())).await;
    let to = instant(&created, "createTime");
    let range = json!({ "from": to - TimeDelta::hours(20), "to": to, "pace": "0.3s" });
    let answer = cell.api.post("/v1/jobs/hourly:backfill", range).await.expect("filled");
    assert_eq!(answer["added"], "20");
    cell.api.wait_for_runs("hourly", "SUCCEEDED", 3).await;
    pause(&cell, "hourly").await;
    let open = "SELECT count(*) FROM run_lease";
    wait_for(PATIENCE, "what runs to end", async || (cell.count(open).await == 0).then_some(())).await;
    let ended = "SELECT count(*) FROM run WHERE state = 'SUCCEEDED'";
    let (before, clock) = (cell.count(ended).await, "SELECT extract(epoch FROM esc_now())::bigint");
    let later = cell.count(clock).await + 4;
    wait_for(PATIENCE, "time to pass", async || (cell.count(clock).await >= later).then_some(())).await;
    assert_eq!(cell.count(ended).await, before, "nothing is released meanwhile");
    assert!(before < 20);
    // Also when dispatchers look for idle backlogs anew.
    for name in names(&cell.stack, Role::Dispatcher) {
        cell.stack.service(&name).expect("a dispatcher").process().kill().expect("killed");
        cell.stack.restart(&name).await.expect("it starts again");
    }
    assert_eq!(cell.count(ended).await, before);
    resume(&cell, "hourly", false).await;
    let runs = cell.api.wait_for_runs("hourly", "SUCCEEDED", 20).await;
    assert_eq!(runs.len(), 20);
    assert!(runs.iter().all(|run| run["origin"] == "BACKFILL" && run["attempt"] == 1));
    cell.stop().await;
}
