//! Running jobs by hand: once for each wish, whatever dies in between; again, and not any more.

use chrono::{DateTime, Utc};
use harness::{Api, Cell, PATIENCE, instant, job, noop, shell, token};
use serde_json::{Value, json};
use stack::dev::Options;
use stack::wait::wait_for;
use std::path::Path;
use std::process::Command;

/// Once a year, long from now.
const SELDOM: &str = "0 0 1 1 *";

async fn trigger(cell: &Cell, name: &str) -> Value {
    cell.api.post(&format!("/v1/jobs/{name}:trigger"), json!({})).await.expect("triggered")
}

#[tokio::test]
async fn a_trigger_runs_at_once_and_waits_for_an_open_run_when_asked_to() {
    let cell = Cell::start().await;
    cell.leader().await;
    let gate = cell.folder().join("gate");
    let line = format!("while [ ! -e {} ]; do sleep 0.1; done", gate.display());
    cell.api.create(job("gated", SELDOM, shell(&line))).await;
    let first = trigger(&cell, "gated").await;
    cell.api.wait_for_runs("gated", "RUNNING", 1).await;
    let refused = cell.api.post("/v1/jobs/gated:trigger", json!({})).await.expect_err("one is open");
    assert_eq!(refused.status, 409);
    let detail = refused.problem["detail"].as_str().expect("a reason");
    assert!(detail.contains(first["name"].as_str().expect("a name")), "{detail}");
    let second = cell.api.post("/v1/jobs/gated:trigger", json!({ "wait": true })).await.expect("it waits");
    assert_eq!(second["state"], "WAITING");
    std::fs::write(&gate, "").expect("opened");
    let runs = cell.api.wait_for_runs("gated", "SUCCEEDED", 2).await;
    assert_eq!((&runs[0]["name"], &runs[1]["name"]), (&first["name"], &second["name"]));
    assert!(token(&runs[1]) > token(&runs[0]));
    assert!(instant(&runs[1], "claimTime") >= instant(&runs[0], "finishTime"), "one at a time");
    assert!(runs.iter().all(|run| run["origin"] == "MANUAL"));
    cell.stop().await;
}

/// Where the registry is: it comes back at another address.
fn api(cell: &mut Cell) -> Api {
    let token = std::fs::read_to_string(&cell.stack.endpoints().admin_token_file).expect("the token");
    let rest = cell.stack.service("registry-1").expect("the registry").endpoint("rest").expect("its address");
    Api::new(&rest, token.trim())
}

/// Triggers with one key after the other until `stopped`; the instants of the runs that were acknowledged.
async fn call_until(
    caller: usize,
    servers: &tokio::sync::watch::Receiver<Api>,
    stopped: &tokio::sync::watch::Receiver<bool>,
) -> Vec<String> {
    let mut acknowledged = Vec::new();
    while !*stopped.borrow() {
        let key = format!("{caller}-{}", acknowledged.len());
        // The same call again until it is answered, at whichever address the registry has by then.
        let run = wait_for(PATIENCE, "an answer", async || {
            let server = servers.borrow().clone();
            server.post_once("/v1/jobs/counted:trigger", json!({}), &key).await.ok()
        })
        .await;
        acknowledged.push(run["scheduledFor"].as_str().expect("an instant").to_owned());
    }
    acknowledged
}

#[tokio::test]
async fn a_registry_killed_under_triggers_with_keys_doubles_none_and_loses_none() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    let mut counted = job("counted", SELDOM, noop());
    counted["overlap"] = json!("ALLOW");
    cell.api.create(counted).await;
    let (server, servers) = tokio::sync::watch::channel(api(&mut cell));
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let killing = async {
        let stored = "SELECT count(*) FROM run WHERE origin = 'MANUAL'";
        for round in 1..=3 {
            let some = async || (cell.count(stored).await > round * 30).then_some(());
            wait_for(PATIENCE, "some triggers", some).await;
            cell.stack.service("registry-1").expect("the registry").process().kill().expect("killed");
            cell.stack.restart("registry-1").await.expect("it starts again");
            server.send_replace(api(&mut cell));
        }
        stop.send_replace(true);
    };
    let caller = |number: usize| call_until(number, &servers, &stopped);
    let (one, two, three, four, ()) = tokio::join!(caller(1), caller(2), caller(3), caller(4), killing);
    let mut acknowledged = [one, two, three, four].concat();
    acknowledged.sort();
    let runs = "SELECT to_char(scheduled_for, 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM run WHERE origin = 'MANUAL' ORDER BY 1";
    let runs = cell.sql(runs).await;
    let instants = |texts: &mut dyn Iterator<Item = &str>| -> Vec<DateTime<Utc>> {
        texts.map(|text| text.parse().expect("an instant")).collect()
    };
    let (mut asked, stored_runs) =
        (instants(&mut acknowledged.iter().map(String::as_str)), instants(&mut runs.lines()));
    asked.sort();
    assert_eq!(asked, stored_runs, "one run for each key, and each that was acknowledged");
    let unfinished = "SELECT count(*) FROM run WHERE origin = 'MANUAL' AND state <> 'SUCCEEDED'";
    wait_for(PATIENCE, "all of them to run", async || (cell.count(unfinished).await == 0).then_some(()))
        .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_rerun_keeps_the_idempotency_key_raises_the_token_and_shows_both_attempts() {
    let cell = Cell::start().await;
    cell.leader().await;
    let line = "echo $ESCAPEMENT_IDEMPOTENCY_KEY $ESCAPEMENT_ATTEMPT $ESCAPEMENT_FENCING_TOKEN";
    cell.api.create(job("again", SELDOM, shell(line))).await;
    trigger(&cell, "again").await;
    let first = cell.api.wait_for_runs("again", "SUCCEEDED", 1).await.remove(0);
    let path = format!("/v1/jobs/again/runs/{}", first["scheduledFor"].as_str().expect("an instant"));
    cell.api.post(&format!("{path}:rerun"), json!({})).await.expect("it runs again");
    let second = wait_for(PATIENCE, "the second attempt", async || {
        let run = cell.api.get(&path).await.expect("the run");
        (run["attempt"] == 2 && run["state"] == "SUCCEEDED").then_some(run)
    })
    .await;
    assert_eq!(second["idempotencyKey"], first["idempotencyKey"]);
    assert!(token(&second) > token(&first));
    let said = |run: &Value, attempt: i32| {
        let key = run["idempotencyKey"].as_str().expect("a key");
        format!("{key} {attempt} {}\n", token(run))
    };
    assert_eq!(first["output"], said(&first, 1));
    assert_eq!(second["output"], said(&second, 2));
    let attempts = second["attempts"].as_array().expect("attempts");
    assert_eq!(attempts.len(), 1, "{second}");
    assert_eq!((&attempts[0]["attempt"], &attempts[0]["state"]), (&json!(1), &json!("SUCCEEDED")));
    assert_eq!(attempts[0]["token"], first["token"]);
    assert_eq!(cell.api.runs("again").await.len(), 1, "it is the same run");
    cell.stop().await;
}

#[tokio::test]
async fn a_run_that_is_cancelled_stops() {
    let cell = Cell::start().await;
    cell.leader().await;
    let mut endless = job("endless", SELDOM, shell("sleep 600"));
    endless["retry"] = json!({ "maxAttempts": 3 });
    cell.api.create(endless).await;
    let run = trigger(&cell, "endless").await;
    cell.api.wait_for_runs("endless", "RUNNING", 1).await;
    let path = format!("/v1/jobs/endless/runs/{}:cancel", run["scheduledFor"].as_str().expect("an instant"));
    cell.api.post(&path, json!({})).await.expect("asked");
    let ended = cell.api.wait_for_runs("endless", "CANCELLED", 1).await.remove(0);
    assert_eq!((&ended["reason"], &ended["attempt"]), (&json!("REQUESTED"), &json!(1)));
    let again = cell.api.post(&path, json!({})).await.expect_err("it has ended");
    assert_eq!(again.status, 409);
    cell.stop().await;
}

#[tokio::test]
async fn the_command_line_pauses_runs_fills_and_cancels() {
    let cell = Cell::start().await;
    cell.leader().await;
    let created = cell.api.create(job("hourly", "0 * * * *", noop())).await;
    let program = Options::for_tests(Path::new(".")).binaries.join("escapement");
    let endpoints = cell.stack.endpoints();
    let secret = std::fs::read_to_string(&endpoints.admin_token_file).expect("the token");
    let escapement = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(["--server", &endpoints.registry.rest, "--token", secret.trim()]).args(arguments);
        let output = command.output().expect("the command line starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    };
    let paused = escapement(&["pause", "hourly", "--reason", "the month is being closed"]).expect("paused");
    assert!(
        paused.starts_with("job hourly is paused since 20") && paused.contains(": the month"),
        "{paused}"
    );
    let listed = escapement(&["get", "jobs"]).expect("listed");
    assert!(listed.lines().any(|line| line.starts_with("hourly") && line.ends_with("paused")), "{listed}");
    let refused = escapement(&["trigger", "hourly"]).expect_err("it is paused");
    assert!(refused.contains("the job is paused: resume it first"), "{refused}");
    let resumed = escapement(&["resume", "hourly", "--catch-up"]).expect("resumed");
    assert!(resumed.starts_with("job hourly is resumed; next: 20"), "{resumed}");

    let first =
        escapement(&["-o", "json", "trigger", "hourly", "--idempotency-key", "k"]).expect("triggered");
    let again =
        escapement(&["-o", "json", "trigger", "hourly", "--idempotency-key", "k"]).expect("triggered");
    assert_eq!(first, again);
    let run: Value = serde_json::from_str(&first).expect("JSON");
    let name = run["name"].as_str().expect("a name");
    cell.api.wait_for_runs("hourly", "SUCCEEDED", 1).await;
    let rerun = escapement(&["rerun", name]).expect("again");
    assert_eq!(rerun, format!("{name} waits for attempt 2\n"));
    let ended = async || {
        let runs = cell.api.runs("hourly").await;
        (runs[0]["state"] == "SUCCEEDED" && runs[0]["attempt"] == 2).then_some(())
    };
    wait_for(PATIENCE, "the second attempt", ended).await;
    let refused = escapement(&["cancel", name]).expect_err("it has ended");
    assert!(refused.contains("has ended already: it is succeeded"), "{refused}");

    let to = created["createTime"].as_str().expect("an instant");
    let from = (instant(&created, "createTime") - chrono::TimeDelta::hours(3)).to_rfc3339();
    let range = ["backfill", "hourly", "--from", &from, "--to", to];
    let would = escapement(&[&range[..], &["--dry-run"]].concat()).expect("estimated");
    assert!(would.starts_with("3 runs of hourly would be added, from 20"), "{would}");
    let done = escapement(&[&range[..], &["--pace", "500ms", "--follow"]].concat()).expect("filled");
    assert!(done.starts_with("3 runs of hourly added, from 20") && done.ends_with("0 left\n"), "{done}");
    let again = escapement(&range).expect("nothing to do");
    assert!(again.starts_with("0 runs of hourly added; 3 of the range were there already"), "{again}");
    cell.stop().await;
}
