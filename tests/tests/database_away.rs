//! Without the database: what runs goes on for as long as every dispatcher lacks it, and what was missed is accounted for.

use harness::{Cell, PATIENCE, job, shell};
use serde_json::{Value, json};
use stack::dev::Options;
use stack::postgres::Stop;
use stack::wait::wait_for;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longer than any worker lives without a renewal, many times over.
const AWAY: Duration = Duration::from_secs(60);

/// A run that says when it starts and ends, and that it was asked to stop.
fn long(name: &str, mark: &Path, seconds: u64) -> Value {
    let mark = mark.display();
    // The shell waits for its child in the background, so that it hears the signal at once.
    let line = format!(
        "trap 'echo stopped >> {mark}; exit 1' TERM; echo started >> {mark}; sleep {seconds} & wait; echo ended >> {mark}"
    );
    // Once, soon: the next one is a year away.
    let mut long = job(name, "0 0 0 1 1 *", shell(&line));
    long["maxRuntime"] = json!("600s");
    long
}

fn said(mark: &Path) -> String {
    std::fs::read_to_string(mark).unwrap_or_default().replace('\n', " ").trim().to_owned()
}

async fn until_said(mark: &Path, what: &str) {
    wait_for(PATIENCE, &format!("{what} in {}", mark.display()), async || (said(mark) == what).then_some(()))
        .await;
}

async fn until_passed(since: Instant, limit: Duration) {
    let limit_and_patience = limit + PATIENCE;
    wait_for(limit_and_patience, "time to pass", async || (since.elapsed() >= limit).then_some(())).await;
}

/// The dispatcher that each agent's session is with.
async fn dispatcher_of(cell: &Cell, worker: &str) -> String {
    let status = cell.api.get("/v1/status").await.expect("status");
    let workers = status["workers"].as_array().expect("workers");
    let found = workers.iter().find(|found| found["name"] == worker).expect("the worker");
    found["dispatcher"].as_str().expect("its dispatcher").to_owned()
}

#[tokio::test]
async fn sixty_seconds_without_the_database_kill_no_run_and_lose_no_occurrence() {
    let mut cell = Cell::start_with(|options| Options { agents: 2, ..options }).await;
    cell.leader().await;
    let marks: Vec<_> = (1..=4).map(|number| cell.folder().join(format!("long-{number}"))).collect();
    for (number, mark) in marks.iter().enumerate() {
        let name = format!("long-{number}");
        cell.api.create(long(&name, mark, 75)).await;
        cell.api.post(&format!("/v1/jobs/{name}:trigger"), json!({})).await.expect("triggered");
    }
    for (name, policy) in [("skips", "SKIP"), ("once", "ONCE"), ("catches-up", "CATCH_UP")] {
        let mut each_second = job(name, "* * * * * *", shell("sleep 0.1"));
        each_second["overlap"] = json!("ALLOW");
        each_second["misfire"] =
            json!({"policy": policy, "grace": "10s", "catchUpLimit": 1000, "catchUpPerSecond": 50});
        cell.api.create(each_second).await;
    }
    for mark in &marks {
        until_said(mark, "started").await;
    }
    cell.api.wait_for_runs("once", "SUCCEEDED", 3).await;

    let from = cell.sql("SELECT date_trunc('second', esc_now())").await;
    let stopped = Instant::now();
    cell.stack.postgres().stop(Stop::Immediate).await.expect("stopped");
    until_passed(stopped, AWAY).await;
    for mark in &marks {
        assert_eq!(said(mark), "started", "nothing was stopped, and nothing was started again");
    }
    cell.stack.postgres().start_again().await.expect("started");
    let through = cell.sql("SELECT date_trunc('second', esc_now())").await;

    for (number, mark) in marks.iter().enumerate() {
        let ended = cell.api.wait_for_runs(&format!("long-{number}"), "SUCCEEDED", 1).await;
        assert_eq!(ended[0]["attempt"], 1);
        assert_eq!(said(mark), "started ended");
        let agent = ended[0]["worker"].as_str().expect("its worker");
        assert!(cell.log(agent).contains("No dispatcher has the database"), "{agent} relied on all of them");
    }
    assert_eq!(
        cell.count("SELECT count(*) FROM run_outcome WHERE state = 'LOST'").await,
        0,
        "nobody was reaped"
    );
    assert_policies(&mut cell, &from, &through).await;
    cell.stop().await;
}

/// Every second in between is a run that has ended, or is counted as missed; and each policy did what it says.
async fn assert_policies(cell: &mut Cell, from: &str, through: &str) {
    let open = format!(
        "SELECT (SELECT count(*) FROM run WHERE scheduled_for <= '{through}' AND state = 'PLANNED') \
              + (SELECT count(*) FROM job_cursor WHERE next_fire_at <= '{through}') + (SELECT count(*) FROM catch_up)"
    );
    wait_for(PATIENCE, "every occurrence decided", async || (cell.count(&open).await == 0).then_some(()))
        .await;
    let of = |name: &str, what: &str| {
        format!(
            "SELECT count(*) FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = '{name}' \
             AND r.scheduled_for > '{from}'::timestamptz + interval '2 seconds' \
             AND r.scheduled_for <= '{through}'::timestamptz - interval '15 seconds' AND {what}"
        )
    };
    let all = cell.count(&of("skips", "true")).await;
    assert!(all >= 40, "{all} seconds were planned before, and passed without the database");
    assert_eq!(cell.count(&of("skips", "r.state = 'SUCCEEDED'")).await, 0, "SKIP runs none");
    assert!(cell.count(&of("once", "r.state = 'SUCCEEDED'")).await <= 1, "ONCE runs the latest");
    assert_eq!(cell.count(&of("catches-up", "r.state = 'SUCCEEDED'")).await, all, "CATCH_UP runs all");
    for name in ["skips", "once", "catches-up"] {
        let seconds = format!(
            "SELECT count(*) FROM generate_series('{from}'::timestamptz, '{through}'::timestamptz, interval '1 second') s \
             WHERE NOT EXISTS (SELECT FROM run r JOIN job j ON j.id = r.job_id WHERE j.name = '{name}' AND r.scheduled_for = s) \
               AND NOT EXISTS (SELECT FROM misfire m JOIN job j ON j.id = m.job_id WHERE j.name = '{name}' AND s BETWEEN m.first AND m.last)"
        );
        assert_eq!(cell.count(&seconds).await, 0, "{name}: seconds that are neither a run nor a misfire");
    }
}

#[tokio::test]
async fn without_database_and_dispatcher_a_worker_stops_its_runs_by_itself() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let mark = cell.folder().join("long");
    cell.api.create(long("long", &mark, 300)).await;
    cell.api.post("/v1/jobs/long:trigger", json!({})).await.expect("triggered");
    until_said(&mark, "started").await;
    let holder = dispatcher_of(&cell, "agent-1").await;

    cell.stack.postgres().stop(Stop::Immediate).await.expect("stopped");
    cell.stack.service(&holder).expect("a dispatcher").process().kill().expect("killed");
    let killed = Instant::now();
    until_said(&mark, "started stopped").await;
    let took = killed.elapsed();
    // Nine seconds after the last renewal, which was at most a second before.
    assert!(took > Duration::from_secs(6) && took < Duration::from_secs(12), "stopped after {took:?}");

    cell.stack.postgres().start_again().await.expect("started");
    // Given up: the run is attempted again, and only then.
    wait_for(PATIENCE, "the next attempt", async || (said(&mark) == "started stopped started").then_some(()))
        .await;
    cell.stop().await;
}
