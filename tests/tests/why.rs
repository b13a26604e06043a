//! Why: no occurrence of a job's life is without an answer.

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use harness::{Cell, PATIENCE, instant, job, names, noop};
use serde_json::{Value, json};
use stack::dev::Role;
use stack::wait::wait_for;
use std::collections::BTreeMap;

async fn now(cell: &mut Cell) -> DateTime<Utc> {
    let seconds = cell.count("SELECT floor(extract(epoch FROM esc_now()))::bigint").await;
    DateTime::from_timestamp(seconds, 0).expect("in range")
}

async fn why(cell: &Cell, job: &str, at: DateTime<Utc>) -> Value {
    let time = at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    let answer = cell.api.get(&format!("/v1/jobs/{job}:why?time={time}")).await;
    answer.unwrap_or_else(|refused| panic!("why {job}@{time}: {refused:?}"))
}

/// Asks about the seconds from `from` through `through`, each in the last minutes and some of those before; how often
/// each answer came. Fails for an answer that leaves an occurrence without account.
async fn account(
    cell: &Cell,
    job: &str,
    from: DateTime<Utc>,
    through: DateTime<Utc>,
) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    let mut at = from;
    while at <= through {
        let answer = why(cell, job, at).await;
        let word = answer["answer"].as_str().expect("an answer").to_owned();
        let accounted =
            ["RUN", "MISSED", "PAUSED", "TO_BE_PLANNED", "NOT_AN_OCCURRENCE"].contains(&word.as_str());
        assert!(accounted, "{job}@{at}: {answer:#}");
        assert!(answer["explanation"].as_str().is_some_and(|text| text.lines().count() >= 2), "{answer:#}");
        *answers.entry(word).or_default() += 1;
        at += TimeDelta::seconds(if through - at > TimeDelta::seconds(240) { 61 } else { 1 });
    }
    answers
}

const JOBS: [&str; 6] = ["skip", "once", "catch-up", "paused", "caught-up", "changing"];

async fn create_all(cell: &Cell) {
    for name in JOBS {
        let mut job = job(name, "* * * * * *", noop());
        let policy = if name == "skip" {
            "SKIP"
        } else if name == "catch-up" {
            "CATCH_UP"
        } else {
            "ONCE"
        };
        job["misfire"] = json!({ "policy": policy, "grace": "10s", "catchUpLimit": 20 });
        job["overlap"] = json!("ALLOW");
        job["alert"] = json!({ "disabled": true });
        cell.api.create(job).await;
    }
}

async fn post(cell: &Cell, path: &str, body: Value) -> Value {
    cell.api.post(path, body).await.unwrap_or_else(|refused| panic!("{path}: {refused:?}"))
}

#[tokio::test]
async fn every_occurrence_is_accounted_for() {
    let unguarded = "clock_jump_guard_ms = 0";
    let mut cell = Cell::start_with(|options| {
        options.setting(Role::Ticker, unguarded).setting(Role::Dispatcher, unguarded)
    })
    .await;
    cell.leader().await;
    create_all(&cell).await;
    let created = now(&mut cell).await + TimeDelta::seconds(1);
    cell.api.wait_for_runs("once", "SUCCEEDED", 3).await;
    post(&cell, "/v1/jobs/paused:pause", json!({ "reason": "stocktaking" })).await;
    post(&cell, "/v1/jobs/caught-up:pause", json!({})).await;
    for name in names(&cell.stack, Role::Ticker) {
        cell.stack.service(&name).expect("a ticker").process().kill().expect("killed");
    }
    cell.sql("UPDATE clock_shift SET shift = shift + interval '1 hour'").await;
    // During the outage nothing that is due is unknown: it is still to be planned, or was already.
    let outage = now(&mut cell).await;
    for job in JOBS {
        account(&cell, job, created, outage).await;
    }
    let mut changed = job("changing", "*/2 * * * * *", noop());
    changed["misfire"] = json!({ "policy": "ONCE", "grace": "10s" });
    cell.api.put("/v1/jobs/changing", changed).await.expect("changed");
    post(&cell, "/v1/jobs/paused:resume", json!({})).await;
    post(&cell, "/v1/jobs/caught-up:resume", json!({ "catchUp": true })).await;
    for name in names(&cell.stack, Role::Ticker) {
        cell.stack.restart(&name).await.expect("it starts again");
    }
    // While they come back.
    account(&cell, "once", outage - TimeDelta::seconds(20), outage).await;
    let overdue = "SELECT count(*) FROM job_cursor WHERE next_fire_at <= esc_now()";
    wait_for(PATIENCE, "all cursors past now", async || (cell.count(overdue).await == 0).then_some(())).await;

    let settled = now(&mut cell).await;
    let mut of = BTreeMap::new();
    for job in JOBS {
        let past = account(&cell, job, created, settled).await;
        assert_eq!(past.get("TO_BE_PLANNED"), None, "{job}: everything up to now is decided: {past:?}");
        of.insert(job, past);
        let coming = account(&cell, job, settled, settled + TimeDelta::seconds(200)).await;
        assert!(coming.contains_key("TO_BE_PLANNED") && coming.contains_key("RUN"), "{job}: {coming:?}");
        let odd = coming.contains_key("NOT_AN_OCCURRENCE");
        assert_eq!(odd, job == "changing", "{job}: {coming:?}");
    }
    for (job, expected) in [
        ("skip", "MISSED"),
        ("once", "MISSED"),
        ("catch-up", "MISSED"),
        ("paused", "PAUSED"),
        ("caught-up", "MISSED"),
    ] {
        assert!(of[job].get(expected).is_some_and(|count| *count > 30), "{job}: {:?}", of[job]);
    }
    assert!(!of["caught-up"].contains_key("PAUSED"), "{:?}", of["caught-up"]);
    let missed = why(&cell, "once", outage - TimeDelta::minutes(30)).await;
    assert_eq!(
        (&missed["missed"]["cause"], &missed["missed"]["policy"]),
        (&json!("NO_TICKER"), &json!("ONCE"))
    );
    assert!(missed["missed"]["ticker"].as_str().is_some_and(|name| name.starts_with("ticker")), "{missed}");
    cell.stop().await;
}

#[tokio::test]
async fn a_run_by_hand_and_one_that_ran_are_explained() {
    let cell = Cell::start().await;
    cell.leader().await;
    cell.api.create(job("hello", "* * * * * *", noop())).await;
    let run = cell.api.wait_for_runs("hello", "SUCCEEDED", 1).await.remove(0);
    let answer = why(&cell, "hello", instant(&run, "scheduledFor")).await;
    assert_eq!((&answer["answer"], &answer["run"]["worker"]), (&json!("RUN"), &run["worker"]), "{answer}");
    let text = answer["explanation"].as_str().expect("text");
    for part in ["It ended as succeeded", "on worker agent-1", "ms after it was due", "planned it, in term"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let triggered = post(&cell, "/v1/jobs/hello:trigger", json!({ "wait": true })).await;
    let at = instant(&triggered, "scheduledFor");
    let answer = why(&cell, "hello", at).await;
    assert_eq!(answer["answer"], "RUN", "{answer}");
    assert!(answer["explanation"].as_str().is_some_and(|text| text.contains("It was triggered")), "{answer}");
    let beside = why(&cell, "hello", at + TimeDelta::microseconds(1)).await;
    assert_eq!(beside["answer"], "NOT_AN_OCCURRENCE", "{beside}");
    cell.stop().await;
}
