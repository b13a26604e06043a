//! Seeing: the command line and the API say the same, for people and for programs.

use harness::{Cell, job, shell};
use serde_json::Value;

#[tokio::test]
async fn status_jobs_and_runs_are_shown_to_people_and_programs() {
    let cell = Cell::start().await;
    let (leader, revision) = cell.leader().await;
    cell.api.create(job("hello", "* * * * * *", shell("echo hello; sleep 0.1"))).await;
    cell.api.wait_for_runs("hello", "SUCCEEDED", 3).await;

    let status: Value = serde_json::from_str(&cell.prints(&["status", "-o", "json"])).expect("JSON");
    let pid =
        cell.stack.of(stack::dev::Role::Ticker).find(|ticker| ticker.name() == leader).expect("it").pid();
    assert_eq!(status["ticker"]["leader"]["name"], leader);
    assert_eq!(status["ticker"]["leader"]["pid"], pid);
    assert_eq!(status["ticker"]["leader"]["revision"], revision.to_string());
    assert!(
        status["ticker"]["lastCycleTime"].is_string() && status["lateness"]["p99Ms"].is_number(),
        "{status}"
    );
    assert_eq!(status["dispatchers"].as_array().map(Vec::len), Some(2));
    assert_eq!(status["workers"][0]["name"], "agent-1");
    assert_eq!(status["queue"][0]["queue"], "default");
    assert!(cell.prints(&["status"]).contains(&format!("{leader} leads")));

    let jobs: Value = serde_json::from_str(&cell.prints(&["get", "jobs", "-o", "json"])).expect("JSON");
    assert_eq!(jobs["jobs"][0]["name"], "hello");
    assert!(cell.prints(&["get", "jobs"]).contains("* * * * * *"));

    let runs: Value = serde_json::from_str(&cell.prints(&["runs", "hello", "-o", "json"])).expect("JSON");
    let done = runs["runs"].as_array().expect("runs").iter().find(|run| run["state"] == "SUCCEEDED");
    assert_eq!(done.expect("a success")["output"], "hello\n");
    assert!(cell.prints(&["runs", "hello", "--limit", "200"]).contains("succeeded"));
    cell.stop().await;
}

#[tokio::test]
async fn apply_takes_yaml_and_says_what_is_wrong() {
    let cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await;
    let file = cell.folder().join("jobs.yaml");
    let write = |text: &str| std::fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    write(
        "kind: Channel\nname: oncall\nwebhook: {url: 'http://alerts.example/'}\n---\nkind: Job\nname: nightly\nschedule: '0 2 * * *'\nmaxRuntime: 1h30m\nalert: {successWithin: 2h, channels: [oncall]}\nrun: {exec: {argv: [backup]}}\n",
    );
    assert_eq!(cell.prints(&["apply", "-f", &path]), "channel oncall created\njob nightly created\n");
    assert_eq!(
        cell.prints(&["apply", "-f", &path]),
        "channel oncall unchanged\njob nightly unchanged\nnothing changed\n"
    );
    let stored = cell.api.get("/v1/jobs/nightly").await.expect("there");
    assert_eq!(
        (stored["maxRuntime"].as_str(), stored["alert"]["successWithin"].as_str()),
        (Some("5400s"), Some("7200s"))
    );

    write("kind: Job\nname: nightly\nschedule: '0 25 * * *'\nrun: {exec: {argv: [backup]}}\n");
    let refused = cell.escapement(&["apply", "-f", &path]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1));
    assert!(said.contains("document 1 (nightly): schedule") && said.contains("hour"), "{said}");
    cell.stop().await;
}
