//! The command line as people use it: sets tried out, applied and pruned, jobs found and described, runs watched.

use harness::{Cell, PATIENCE, job, noop, shell};
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

async fn cell_of_a_registry() -> Cell {
    Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await
}

fn yaml(name: &str, hour: u8, team: &str) -> String {
    format!(
        "kind: Job\nname: {name}\nschedule: \"0 {hour} * * *\"\nlabels: {{team: {team}}}\nqueue: {team}\n\
         run: {{handler: {{name: h}}}}\n---\n"
    )
}

#[tokio::test]
async fn a_set_is_tried_out_applied_and_pruned() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("jobs.yaml");
    let path = file.to_str().expect("a text");
    let write = |text: String| std::fs::write(&file, text).expect("written");
    write(yaml("a", 9, "billing") + &yaml("b", 9, "billing"));
    assert_eq!(cell.prints(&["apply", "-f", path]), "job a created\njob b created\n");
    assert_eq!(cell.prints(&["apply", "-f", path]), "job a unchanged\njob b unchanged\nnothing changed\n");

    write(yaml("a", 10, "billing") + &yaml("c", 9, "billing"));
    let prune = ["-f", path, "--prune", "-l", "team=billing"];
    let with = |command: &[&'static str]| cell.prints(&[command, &prune[..]].concat());
    let tried = with(&["apply", "--dry-run"]);
    for line in [
        "job a would be changed\n  schedule: 0 9 * * * → 0 10 * * *\n",
        "job c would be created\n",
        "job b would be deleted\n",
        "coming runs, in the next 24 h and around the next clock change:\n",
        "  a: 1 moved\n",
        "  b: 1 removed\n",
        "  c: 1 added\n",
        "busiest second of the next 24 h: 2 runs at ",
    ] {
        assert!(tried.contains(line), "{line} in {tried}");
    }
    assert_eq!(with(&["diff"]), tried, "nothing was unchanged");
    assert_eq!(cell.prints(&["get", "jobs", "-o", "name"]), "a\nb\n", "nothing was stored");
    assert_eq!(
        with(&["apply"]),
        "job a changed\n  schedule: 0 9 * * * → 0 10 * * *\njob c created\njob b deleted\n"
    );
    assert_eq!(cell.prints(&["get", "jobs", "-o", "name"]), "a\nc\n");
    assert!(with(&["diff"]).starts_with("nothing would change\n\ncoming runs: the same"));

    // Without labels every job would go: it is not even asked for.
    let refused = cell.escapement(&["apply", "-f", path, "--prune"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    write(yaml("d", 61, "billing") + &yaml("E", 9, "billing"));
    let refused = cell.escapement(&["apply", "-f", path]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("document 1 (d): schedule") && said.contains("document 2 (E): name"), "{said}");
    cell.stop().await;
}

#[tokio::test]
async fn jobs_are_created_found_and_described() {
    let cell = cell_of_a_registry().await;
    let file = cell.folder().join("jobs.yaml");
    let path = file.to_str().expect("a text");
    std::fs::write(
        &file,
        yaml("bill-a", 9, "billing") + &yaml("bill-b", 1, "billing") + &yaml("mail", 2, "mail"),
    )
    .expect("written");
    assert_eq!(
        cell.prints(&["create", "-f", path]),
        "job bill-a created\njob bill-b created\njob mail created\n"
    );
    let again = cell.escapement(&["create", "-f", path]);
    assert!(
        !again.status.success() && String::from_utf8_lossy(&again.stderr).contains("already"),
        "{again:?}"
    );
    cell.prints(&["pause", "mail", "--reason", "audit"]);
    let found = |arguments: &[&str]| cell.prints(&[&["get", "jobs", "-o", "name"], arguments].concat());
    assert_eq!(found(&["-l", "team=billing"]), "bill-a\nbill-b\n");
    assert_eq!(found(&["--queue", "mail"]), "mail\n");
    assert_eq!(found(&["--paused"]), "mail\n");
    assert_eq!(found(&["--paused=false", "--prefix", "bill"]), "bill-a\nbill-b\n");
    assert_eq!(found(&["--order", "changed"]).lines().next(), Some("mail"));
    assert_eq!(found(&["--order", "next"]).lines().count(), 2, "a paused one is not due again");
    let table = cell.prints(&["get", "jobs", "-l", "team=mail"]);
    assert!(table.starts_with("JOB ") && table.contains("paused"), "{table}");
    let listed: Value = serde_json::from_str(&cell.prints(&["get", "jobs", "-o", "json"])).expect("JSON");
    assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(3));

    let described = cell.prints(&["describe", "job", "mail"]);
    for line in [
        "pauseReason              audit",
        "labels.team              mail",
        "next occurrences, were it not paused:",
        "PAUSED",
    ] {
        assert!(described.to_lowercase().contains(&line.to_lowercase()), "{line} in {described}");
    }
    let whole: Value =
        serde_json::from_str(&cell.prints(&["describe", "job", "mail", "-o", "json"])).expect("JSON");
    assert_eq!(whole["revisions"][0]["action"], "PAUSED");
    assert_eq!(whole["coming"].as_array().map(Vec::len), Some(5));
    cell.stop().await;
}

/// A command that goes on, with the lines that it has printed; ended when dropped.
struct Going {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Going {
    fn start(cell: &Cell, arguments: &[&str]) -> Self {
        let endpoints = cell.stack.endpoints();
        let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
        let program = stack::dev::Options::for_tests(cell.folder()).binaries.join("escapement");
        let mut child = Command::new(program)
            .args(arguments)
            .env("ESCAPEMENT_SERVER", &endpoints.registry.rest)
            .env("ESCAPEMENT_TOKEN", token.trim())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command line starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let lines = Arc::new(Mutex::new(Vec::new()));
        let gathered = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                gathered.lock().expect("no panic").push(line);
            }
        });
        Self { child, lines }
    }

    fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("no panic").clone()
    }
}

impl Drop for Going {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn runs_are_listed_across_jobs_and_watched_from_their_start_to_their_end() {
    let mut cell = Cell::start().await;
    cell.leader().await;
    cell.api.create(job("fine", "0 0 0 1 1 *", noop())).await;
    let mut twice = job("twice", "0 0 0 1 1 *", shell("exit 3"));
    twice["retry"] = json!({ "maxAttempts": 2, "backoff": "1s", "backoffMax": "1s" });
    cell.api.create(twice).await;
    let watch = Going::start(&cell, &["runs", "--all-jobs", "--watch", "-o", "json"]);
    let failures = Going::start(&cell, &["runs", "twice", "--watch", "--state", "failed", "-o", "name"]);
    // Both begin with what happens from now on: the first that is shown says that they have begun.
    let began = wait_for(PATIENCE, "a run that both have seen", async || {
        cell.api.post("/v1/jobs/twice:trigger", json!({ "wait": true })).await.ok();
        (!failures.lines().is_empty() && !watch.lines().is_empty()).then_some(())
    });
    began.await;
    // Both go on where they were, at the registry that is started in its place.
    cell.stack.service("registry-1").expect("the registry").process().kill().expect("killed");
    cell.stack.restart("registry-1").await.expect("started again");
    let triggered = cell.api.post("/v1/jobs/fine:trigger", json!({})).await.expect("triggered");
    let name = triggered["name"].as_str().expect("a name").to_owned();
    let states = async |name: &str, last: &str| {
        wait_for(PATIENCE, "the end of a run", async || {
            let events: Vec<Value> =
                watch.lines().iter().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            let own = events.iter().filter(|run| run["name"] == name);
            let states: Vec<String> = own
                .map(|run| format!("{} {}", run["state"].as_str().expect("a state"), run["attempt"]))
                .collect();
            states.last().is_some_and(|state| state.starts_with(last)).then_some(states)
        })
        .await
    };
    assert_eq!(states(&name, "SUCCEEDED").await, ["RUNNING 1", "SUCCEEDED 1"]);
    let failed = failures.lines()[0].clone();
    let of_failed = states(&failed, "FAILED").await;
    let whole = ["RUNNING 1", "RETRYING 1", "RUNNING 2", "FAILED 2"];
    // It may have begun before the watch did.
    assert!(whole.ends_with(&of_failed.iter().map(String::as_str).collect::<Vec<_>>()), "{of_failed:?}");

    let succeeded = cell.prints(&["runs", "--all-jobs", "--state", "succeeded", "--since", "1h"]);
    assert!(succeeded.starts_with("RUN ") && succeeded.contains(&name), "{succeeded}");
    assert!(!succeeded.contains("twice"), "{succeeded}");
    let names = cell.prints(&["runs", "--all-jobs", "--origin", "manual", "-n", "1000", "-o", "name"]);
    assert!(names.contains(&name) && names.contains(&failed), "{names}");
    let none = cell.prints(&["runs", "fine", "--until", "1d", "-o", "name"]);
    assert_eq!(none.trim(), "");
    let wrong = cell.escapement(&["runs", "--all-jobs", "--state", "gone"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("states"), "{wrong:?}");
    drop((watch, failures));
    cell.stop().await;
}
