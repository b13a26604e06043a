//! Workers in Rust and in Python keep the same contract: each behaviour here is asked of both SDKs, in real processes
//! that are killed, frozen and stopped, with the ledger as the witness.
//!
//! Needs python3 with venv, and the package index that pip is set up for; without them these tests fail.

mod page;
mod subject;

use harness::{Cell, PATIENCE, instant, shell, token};
use serde_json::{Value, json};
use stack::process::Signal;
use stack::wait::wait_for;
use subject::{Sdk, Subject, handled, of_both};

/// The job's running run, once its work has left its mark.
async fn running_with_mark(cell: &Cell, sdk: Sdk, job: &str, mark: &str) -> Value {
    sdk.marked(cell, mark).await;
    cell.api.wait_for_runs(&sdk.job(job), "RUNNING", 1).await[0].clone()
}

/// That run, once it has ended so, in this attempt.
async fn ended(cell: &Cell, run: &Value, state: &str, attempt: u32) -> Value {
    let what = format!("{} in state {state}", run["name"]);
    let ended = wait_for(PATIENCE, &what, async || {
        let run = whole(cell, run).await;
        (run["state"] == state).then_some(run)
    })
    .await;
    assert_eq!(ended["attempt"], attempt, "{ended}");
    ended
}

async fn whole(cell: &Cell, run: &Value) -> Value {
    cell.api.get(&path(run)).await.expect("the run")
}

fn path(run: &Value) -> String {
    let time = run["scheduledFor"].as_str().expect("an instant");
    format!("/v1/jobs/{}/runs/{time}", run["jobName"].as_str().expect("a name"))
}

fn error(run: &Value) -> &str {
    run["error"].as_str().unwrap_or_default()
}

#[tokio::test]
async fn a_handler_learns_who_it_is_and_its_end_is_in_the_ledger() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        let created = sdk.create(&cell, "bill", "invoice", &json!({"customer": {"number": 7}})).await;
        sdk.create(&cell, "reminder", "remind", &json!("politely")).await;
        let worker = sdk.start(&cell, 1).await;

        let run = &cell.api.wait_for_runs(&sdk.job("bill"), "SUCCEEDED", 2).await[1];
        let said: Value = serde_json::from_str(run["output"].as_str().expect("an output")).expect("JSON");
        assert_eq!((&said["customer"], &said["attempt"]), (&json!(7), &json!(1)));
        assert_eq!((&said["job"], &said["name"]), (&run["jobName"], &run["name"]));
        assert_eq!((&said["origin"], &said["queue"]), (&json!("SCHEDULE"), &json!(sdk.name())));
        assert_eq!(said["token"], run["token"]);
        assert_eq!(said["idempotencyKey"], run["idempotencyKey"]);
        assert_eq!(said["guardKey"], created["id"], "runs that exclude each other share the job's guard key");
        assert_eq!(instant(&said, "scheduledFor"), instant(run, "scheduledFor"));
        let left = instant(&said, "deadline") - instant(run, "acceptTime");
        assert!((55..=65).contains(&left.num_seconds()), "maxRuntime is 60 s, the deadline is in {left}");
        assert_eq!(run["worker"], worker.name());

        let reminded = &cell.api.wait_for_runs(&sdk.job("reminder"), "SUCCEEDED", 1).await[0];
        assert_eq!(reminded["output"], "reminded politely\n");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn what_fails_is_told_and_the_worker_goes_on() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        for (what, handler, payload) in [
            ("jam", "fail", Value::Null),
            ("crash", "crash", Value::Null),
            ("misfit", "invoice", json!({"customer": {"number": "seven"}})),
            ("empty", "invoice", json!({})),
            ("nobody", "unheard-of", Value::Null),
        ] {
            // A second attempt of what failed, and none of what no second attempt can mend.
            let retry = json!({"maxAttempts": 2, "backoff": "1s", "outcomes": ["FAILED"]});
            sdk.create_with(&cell, what, handled(handler, &payload), json!({ "retry": retry })).await;
        }
        sdk.create_with(&cell, "misplaced", shell("true"), json!({})).await;
        let worker = sdk.start(&cell, 1).await;
        for (what, reason, says) in [
            ("jam", "WORK_FAILED", vec!["out of paper"]),
            ("crash", "WORK_FAILED", vec!["out of ink"]),
            ("misfit", "NOT_STARTED", vec!["customer.number", "\"seven\"", "Invoice", "the payload of"]),
            ("empty", "NOT_STARTED", vec!["customer", "missing"]),
            ("nobody", "NOT_STARTED", vec!["unheard-of", "it has: crash, fail"]),
            ("misplaced", "NOT_STARTED", vec!["does not start processes"]),
        ] {
            let failed = &cell.api.wait_for_runs(&sdk.job(what), "FAILED", 1).await[0];
            let attempts = if reason == "WORK_FAILED" { 2 } else { 1 };
            assert_eq!(
                (&failed["reason"], &failed["attempt"]),
                (&json!(reason), &json!(attempts)),
                "{failed}"
            );
            assert!(says.iter().all(|part| error(failed).contains(part)), "{says:?} in {failed}");
        }
        sdk.create(&cell, "reminder", "remind", &json!("after all that")).await;
        let reminded = &cell.api.wait_for_runs(&sdk.job("reminder"), "SUCCEEDED", 1).await[0];
        assert_eq!(reminded["worker"], worker.name());
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn what_a_run_shows_is_seen_while_it_runs() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        sdk.create(&cell, "slow", "until-opened", &Value::Null).await;
        let _worker = sdk.start(&cell, 1).await;
        let running = running_with_mark(&cell, sdk, "slow", "waits").await;
        let output = format!("{}/output?once=true", path(&running));
        wait_for(PATIENCE, "what the run shows", async || {
            let shown = cell.api.get(&output).await.expect("its output").to_string();
            let parts = ["RUNNING", "d2FpdGluZwo=", "at the door", "0.4"]; // the first is "waiting\n"
            parts.iter().all(|part| shown.contains(part)).then_some(())
        })
        .await;
        sdk.open(&cell);
        let ended = ended(&cell, &running, "SUCCEEDED", 1).await;
        assert_eq!(ended["output"], "waiting\nopened\n");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_cancelled_run_and_one_past_its_time_are_told_to_stop() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        sdk.create(&cell, "endless", "waits", &Value::Null).await;
        let brief = json!({"maxRuntime": "2s"});
        sdk.create_with(&cell, "brief", handled("waits", &Value::Null), brief).await;
        let _worker = sdk.start(&cell, 1).await;

        let running =
            running_with_mark(&cell, sdk, "endless", &format!("{}-waits", sdk.job("endless"))).await;
        cell.api.post(&format!("{}:cancel", path(&running)), json!({})).await.expect("asked to stop");
        let cancelled = ended(&cell, &running, "CANCELLED", 1).await;
        assert_eq!(cancelled["reason"], "REQUESTED");
        assert!(error(&cancelled).contains("told to stop"), "it could say a last word: {cancelled}");
        sdk.marked(&cell, &format!("{}-told", sdk.job("endless"))).await;

        let timed_out = &cell.api.wait_for_runs(&sdk.job("brief"), "TIMED_OUT", 1).await[0];
        assert!(error(timed_out).contains("maximum runtime"), "{timed_out}");
        let ran = instant(timed_out, "finishTime") - instant(timed_out, "acceptTime");
        assert!((1_500..4_000).contains(&ran.num_milliseconds()), "maxRuntime is 2 s, it ran for {ran}");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_stop_finishes_what_is_in_hand() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        sdk.create(&cell, "slow", "until-opened", &Value::Null).await;
        let mut worker = sdk.start(&cell, 1).await;
        let running = running_with_mark(&cell, sdk, "slow", "waits").await;
        worker.0.signal(Signal::SIGTERM).expect("told to end");
        let draining = "Draining: finishing the runs in hand runs.in_hand=1";
        worker.wait_for_log_line("the drain", |line| line.contains(draining)).await;
        sdk.open(&cell);
        let status = worker.ends().await;
        assert!(status.success(), "{status}\n{}", worker.log());
        assert!(worker.log().contains("finished=1 unreported=0"), "{}", worker.log());
        let ended = whole(&cell, &running).await;
        assert_eq!((&ended["state"], &ended["attempt"]), (&json!("SUCCEEDED"), &json!(1)), "{ended}");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_run_whose_worker_is_killed_goes_to_another_with_a_higher_token() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        sdk.create(&cell, "long", "hangs-once", &Value::Null).await;
        let mut first = sdk.start(&cell, 1).await;
        let running = running_with_mark(&cell, sdk, "long", "hangs").await;
        let second = sdk.start(&cell, 2).await;
        first.0.kill().expect("killed");

        let ended = ended(&cell, &running, "SUCCEEDED", 2).await;
        assert_eq!(ended["worker"], second.name(), "{ended}");
        assert!(token(&ended) > token(&running), "{ended}");
        assert_eq!(ended["attempts"][0]["state"], "LOST");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_frozen_worker_that_thaws_cancels_its_runs_and_its_late_success_is_refused() {
    let cell = Cell::start().await;
    of_both(async |sdk| {
        sdk.create(&cell, "long", "hangs-once", &Value::Null).await;
        let frozen = sdk.start(&cell, 1).await;
        let long = running_with_mark(&cell, sdk, "long", "hangs").await;
        // Its work freezes the whole worker, and has ended when that thaws.
        sdk.create(&cell, "last", "freezes-once", &Value::Null).await;
        let last = running_with_mark(&cell, sdk, "last", "freezes").await;
        let _second = sdk.start(&cell, 2).await;
        let given = [ended(&cell, &long, "SUCCEEDED", 2).await, ended(&cell, &last, "SUCCEEDED", 2).await];
        let log = frozen.log();
        assert!(!log.contains("Run asked to stop"), "nobody told it before: {log}");

        frozen.0.cont().expect("thawed");
        let named = |run: &Value| {
            let ends = format!("run.token={}", run["token"].as_str().expect("a token"));
            move |line: &str, says: &str| line.contains(says) && line.ends_with(&ends)
        };
        let (of_long, of_last) = (named(&long), named(&last));
        let expired = "Run asked to stop: stopped by its worker, whose lease could not be renewed";
        frozen.wait_for_log_line("the hanging work cancelled by itself", |line| of_long(line, expired)).await;
        let stale = "The report of an attempt was refused as stale";
        // Which comes first when everything goes on at once, the end of the work or that of the lease, is nobody's choice:
        // the success is refused, or it is cancelled before it is told.
        let refused = |line: &str| of_last(line, stale) || of_last(line, expired);
        frozen.wait_for_log_line("the late success refused", refused).await;
        assert_eq!([whole(&cell, &long).await, whole(&cell, &last).await], given, "and nothing was changed");
    })
    .await;
    cell.stop().await;
}

#[tokio::test]
async fn a_run_goes_on_while_each_dispatcher_is_killed_in_turn() {
    let mut cell = Cell::start().await;
    let mut workers: Vec<Subject> = Vec::new();
    let mut runs = Vec::new();
    for sdk in [Sdk::Rust, Sdk::Python] {
        sdk.create(&cell, "slow", "until-opened", &Value::Null).await;
        workers.push(sdk.start(&cell, 1).await);
        runs.push(running_with_mark(&cell, sdk, "slow", "waits").await);
    }
    for (killed, other) in [("dispatcher-1", "dispatcher-2"), ("dispatcher-2", "dispatcher-1")] {
        cell.stack.service(killed).expect("a dispatcher").process().kill().expect("killed");
        wait_for(PATIENCE, &format!("both workers at {other}"), async || {
            let status = cell.api.get("/v1/status").await.ok()?;
            let at = |worker: &Subject| {
                let mut sessions = status["workers"].as_array()?.iter();
                Some(sessions.find(|session| session["name"] == worker.name())?["dispatcher"] == other)
            };
            workers.iter().all(|worker| at(worker) == Some(true)).then_some(())
        })
        .await;
        cell.stack.restart(killed).await.expect("started again");
    }
    for (sdk, run) in [Sdk::Rust, Sdk::Python].into_iter().zip(&runs) {
        sdk.open(&cell);
        let ended = ended(&cell, run, "SUCCEEDED", 1).await;
        assert_eq!(ended["token"], run["token"], "the same attempt");
        assert_eq!(ended["output"], "waiting\nopened\n");
    }
    for worker in &workers {
        let resumed =
            |line: &str| line.contains("session.resumed=true") || line.contains("session.resumed=True");
        assert!(worker.log().lines().any(resumed), "{}", worker.log());
    }
    cell.stop().await;
}
