//! What follows an attempt that failed or was lost, as the job's owner chose it, from the contract to the ledger.

use chrono::TimeDelta;
use harness::{Cell, PATIENCE, instant, job, shell, token};
use serde_json::{Value, json};
use stack::dev::Options;
use stack::wait::wait_for;

/// One agent, so that who runs what is known.
async fn cell() -> Cell {
    let cell = Cell::start_with(|options| Options { agents: 1, ..options }).await;
    cell.leader().await;
    cell
}

/// A job that runs when it is triggered.
async fn triggered(cell: &Cell, name: &str, line: &str, retry: Value) {
    let mut job = job(name, "0 0 0 1 1 *", shell(line));
    job["retry"] = retry;
    cell.api.create(job).await;
    // Not before the first ticker has made a place for today's runs.
    let path = format!("/v1/jobs/{name}:trigger");
    wait_for(PATIENCE, "the trigger", async || cell.api.post(&path, json!({})).await.ok()).await;
}

/// The only run of a job, with its attempts, once it is in `state`.
async fn ended(cell: &Cell, name: &str, state: &str) -> Value {
    let run = cell.api.wait_for_runs(name, state, 1).await.remove(0);
    let path = format!("/v1/jobs/{name}/runs/{}", run["scheduledFor"].as_str().expect("an instant"));
    cell.api.get(&path).await.expect("the run")
}

#[tokio::test]
async fn each_outcome_and_status_is_tried_again_as_the_policy_says() {
    let cell = cell().await;
    let policy = |outcomes: Value, statuses: Value| json!({"maxAttempts": 3, "backoff": "0.1s", "outcomes": outcomes, "finalStatuses": statuses});
    triggered(&cell, "failing", "exit 1", policy(json!(["FAILED"]), json!([]))).await;
    triggered(&cell, "not-for-failures", "exit 1", policy(json!(["TIMED_OUT", "LOST"]), json!([]))).await;
    triggered(&cell, "fatal", "exit 64", policy(json!([]), json!([64]))).await;
    triggered(&cell, "not-fatal", "exit 65", policy(json!([]), json!([64]))).await;
    for (name, attempts) in [("failing", 3), ("not-for-failures", 1), ("fatal", 1), ("not-fatal", 3)] {
        let run = ended(&cell, name, "FAILED").await;
        assert_eq!((&run["attempt"], &run["reason"]), (&json!(attempts), &json!("WORK_FAILED")), "{name}");
    }
    // What was asked for is what is stored and shown.
    let stored = cell.api.get("/v1/jobs/fatal").await.expect("the job")["retry"].clone();
    assert_eq!(
        stored,
        json!({
            "maxAttempts": 3, "backoff": "0.100s", "backoffMax": "600s", "maxLost": 3, "jitterPercent": 10,
            "outcomes": ["FAILED", "NOT_STARTED", "TIMED_OUT", "LOST"], "finalStatuses": [64]
        })
    );
    let shown = cell.prints(&["--output", "json", "get", "jobs", "not-for-failures"]);
    assert!(shown.contains("TIMED_OUT") && shown.contains("jitterPercent"), "{shown}");
    cell.stop().await;
}

#[tokio::test]
async fn waits_grow_up_to_the_longest_and_are_shortened_by_the_jitter_alone() {
    let cell = cell().await;
    let retry = json!({"maxAttempts": 4, "backoff": "1s", "backoffMax": "2s", "jitterPercent": 50});
    triggered(&cell, "failing", "exit 1", retry).await;
    let run = ended(&cell, "failing", "FAILED").await;
    let earlier = run["attempts"].as_array().expect("attempts");
    assert_eq!(earlier.len(), 3, "{run}");
    let attempts: Vec<&Value> = earlier.iter().chain([&run]).collect();
    let slack = TimeDelta::milliseconds(1_500);
    for (pair, longest) in attempts.windows(2).zip([1_000, 2_000, 2_000]) {
        let waited = instant(pair[1], "claimTime") - instant(pair[0], "finishTime");
        let longest = TimeDelta::milliseconds(longest);
        assert!(waited >= longest / 2 && waited <= longest + slack, "waited {waited} of {longest}");
        assert!(token(pair[0]) < token(pair[1]), "{run}");
    }
    cell.stop().await;
}

#[tokio::test]
async fn a_job_that_forbids_overlap_stays_closed_while_a_run_waits_for_its_retry_and_runs_in_order() {
    let cell = cell().await;
    let marks = cell.folder().join("marks");
    // Every run fails at first.
    let line = format!(
        "echo $ESCAPEMENT_SCHEDULED_FOR $ESCAPEMENT_ATTEMPT $ESCAPEMENT_FENCING_TOKEN >> {}; test $ESCAPEMENT_ATTEMPT -ge 3",
        marks.display()
    );
    let mut alone = job("alone", "* * * * * *", shell(&line));
    alone["retry"] = json!({"maxAttempts": 3, "backoff": "1.5s", "backoffMax": "1.5s", "jitterPercent": 0});
    cell.api.create(alone).await;
    let done = cell.api.wait_for_runs("alone", "SUCCEEDED", 3).await;
    let until = instant(&done[2], "scheduledFor");
    let runs = cell.api.runs("alone").await;
    let before = |run: &&Value| instant(run, "scheduledFor") < until;
    let skipped = runs.iter().filter(before).filter(|run| run["state"] == "SKIPPED").count();
    assert!(skipped >= 4, "what came due during three backoffs of two runs is skipped: {runs:?}");
    for run in runs.iter().filter(before) {
        let legal = match run["state"].as_str() {
            Some("SUCCEEDED") => run["attempt"] == 3,
            Some("SKIPPED") => run["reason"] == "OVERLAP",
            _ => false,
        };
        assert!(legal, "{run}");
    }
    // In the order in which they started: no later run before the last attempt of an earlier one, tokens ever higher.
    let text = std::fs::read_to_string(&marks).expect("marks");
    let starts: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    for pair in starts.windows(2) {
        let number = |word: &str| word.parse::<i64>().expect("a number");
        assert!(number(pair[0][2]) < number(pair[1][2]), "{text}");
        let (same, attempts) = (pair[0][0] == pair[1][0], (number(pair[0][1]), number(pair[1][1])));
        let follows =
            if same { attempts.1 == attempts.0 + 1 } else { attempts == (3, 1) && pair[0][0] < pair[1][0] };
        assert!(follows, "{pair:?} in {text}");
    }
    cell.stop().await;
}

#[tokio::test]
async fn a_run_that_kills_its_worker_each_time_ends_as_lost() {
    let mut cell = cell().await;
    let marks = cell.folder().join("marks");
    let line = format!("echo $ESCAPEMENT_ATTEMPT >> {}; kill -9 $PPID; sleep 60", marks.display());
    triggered(&cell, "poison", &line, json!({"maxAttempts": 1, "maxLost": 2})).await;
    for attempt in ["1\n", "1\n2\n"] {
        let what = format!("attempts {attempt:?}");
        wait_for(PATIENCE, &what, async || {
            (std::fs::read_to_string(&marks).unwrap_or_default() == attempt).then_some(())
        })
        .await;
        // It may still be dying.
        wait_for(PATIENCE, "the agent started again", async || cell.stack.restart("agent-1").await.ok())
            .await;
    }
    let run = ended(&cell, "poison", "LOST").await;
    assert_eq!((&run["attempt"], &run["reason"]), (&json!(2), &json!("WORKER_LOST")), "{run}");
    let attempts = run["attempts"].as_array().expect("attempts");
    assert!(attempts.iter().all(|attempt| attempt["state"] == "LOST"), "{run}");
    // The worker that has started again goes on with other work.
    triggered(&cell, "sound", "true", json!({})).await;
    ended(&cell, "sound", "SUCCEEDED").await;
    assert_eq!(std::fs::read_to_string(&marks).expect("marks"), "1\n2\n", "not a third time");
    cell.stop().await;
}
