//! Looking on: what a run writes is seen while it runs, complete at its end, and without secrets.

use axum::Router;
use axum::http::HeaderMap;
use harness::{Cell, PATIENCE, job, shell};
use serde_json::{Value, json};
use stack::wait::wait_for;
use std::path::Path;
use std::time::{Duration, Instant};

#[tokio::test]
async fn the_output_of_a_run_is_followed_while_it_runs() {
    let cell = Cell::start().await;
    cell.leader().await;
    let go = cell.folder().join("go");
    let line = format!(
        "echo one $API_TOKEN; until [ -e {} ]; do sleep 0.05; done; for i in $(seq 2000); do echo line $i; done; echo last",
        go.display()
    );
    let mut talks = job("talks", "0 0 0 1 1 *", shell(&line));
    talks["run"]["exec"]["env"] = json!({ "API_TOKEN": "t0psecret" });
    cell.api.create(talks).await;
    let triggered = cell.api.post("/v1/jobs/talks:trigger", json!({})).await.expect("triggered");
    let run = format!("talks@{}", triggered["scheduledFor"].as_str().expect("an instant"));

    let seen = wait_for(PATIENCE, "the first line", async || {
        let output = cell.prints(&["logs", &run]);
        (!output.is_empty()).then_some(output)
    })
    .await;
    assert_eq!(seen, "one ***\n", "while it runs");
    std::fs::write(&go, "").expect("opened");
    let began = Instant::now();
    let followed = cell.prints(&["logs", "-f", &run]);
    assert!(began.elapsed() < Duration::from_secs(15), "followed to its end in {:?}", began.elapsed());
    assert!(followed.ends_with("line 2000\nlast\n"), "{}", &followed[followed.len().saturating_sub(200)..]);
    assert!(!followed.contains("t0psecret"));
    let again = cell.prints(&["logs", &run]);
    assert!(again.ends_with("line 2000\nlast\n"), "it can be looked at afterwards too");
    cell.stop().await;
}

#[tokio::test]
async fn whoever_follows_learns_how_the_run_ended_and_what_is_not_there() {
    let cell = Cell::start().await;
    cell.leader().await;
    cell.api.create(job("fails", "0 0 0 1 1 *", shell("echo no paper; exit 3"))).await;
    let triggered = cell.api.post("/v1/jobs/fails:trigger", json!({})).await.expect("triggered");
    let instant = triggered["scheduledFor"].as_str().expect("an instant");
    let output = cell.escapement(&["logs", "-f", &format!("fails@{instant}")]);
    assert!(!output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "no paper\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("failed"), "{said}");
    let unknown = cell.escapement(&["logs", &format!("unknown@{instant}")]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("unknown"), "{unknown:?}");
    let path = format!("/v1/jobs/fails/runs/{instant}/output?once=perhaps");
    assert_eq!(cell.api.get(&path).await.expect_err("refused").status, 400);
    let unauthenticated = harness::Api::new(&cell.stack.endpoints().registry.rest, "wrong");
    let path = format!("/v1/jobs/fails/runs/{instant}/output");
    assert_eq!(unauthenticated.get(&path).await.expect_err("refused").status, 401);
    cell.stop().await;
}

/// A target of calls that tells each caller by which headers it came.
async fn echo() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}/", listener.local_addr().expect("bound"));
    let router = Router::new().fallback(async |headers: HeaderMap| format!("{headers:?}"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

/// Every file under `folder`, by its path.
fn files(folder: &Path) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).expect("its text")).into_owned();
    entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| (path.display().to_string(), read(&path)))
        .collect()
}

/// What those see who watch runs, until one has succeeded.
async fn watched(cell: &Cell, during: impl Future<Output = ()>) -> String {
    let endpoints = cell.stack.endpoints();
    let token = std::fs::read_to_string(&endpoints.admin_token_file).expect("the administrator's token");
    let url = format!("{}/v1/runs:watch", endpoints.registry.rest);
    let asked = reqwest::Client::new().get(url).bearer_auth(token.trim()).send().await;
    let mut stream = asked.expect("an answer").error_for_status().expect("a stream");
    during.await;
    let mut text = String::new();
    let reading = async {
        while !text.contains("SUCCEEDED") {
            let chunk = stream.chunk().await.expect("it goes on").expect("it has not ended");
            text.push_str(&String::from_utf8_lossy(&chunk));
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("the end of the run");
    text
}

/// One secret stands in a header that is marked, and one signs a channel. Whoever asks, by whatever method, and whoever
/// reads the logs of whatever service, finds neither.
#[tokio::test]
async fn marked_secrets_are_in_no_answer_no_output_and_no_log() {
    const PLANTED: &str = "pl4nted";
    let cell = Cell::start().await;
    cell.leader().await;
    let url = echo().await;
    let calls = |value: &str, priority: u32| {
        let headers = json!({ "x-api": value, "x-team": "billing" });
        let http = json!({ "url": url, "headers": headers, "secretHeaders": ["x-api"] });
        let mut job = job("calls", "0 0 0 1 1 *", json!({ "http": http }));
        job["priority"] = json!(priority);
        job
    };
    let signing = "whsec_cGw0bnRlZHBsNG50ZWRwbDRudGVkcGw0bnRlZA==";
    let channel = json!({ "name": "oncall", "webhook": { "url": format!("{url}hook"), "secret": signing } });
    let mut said: Vec<(String, String)> = Vec::new();
    let set = |value: &str, dry_run: bool| json!({ "jobs": [calls(value, 2)], "channels": [channel], "dryRun": dry_run });
    for (method, path, body) in [
        ("POST", "/v1/jobs", calls("pl4nted-first-value", 1)),
        ("PUT", "/v1/jobs/calls", calls("pl4nted-second-value", 1)),
        ("POST", "/v1/apply", set("pl4nted-third-value", true)),
        ("POST", "/v1/apply", set("pl4nted-third-value", false)),
        ("POST", "/v1/jobs/calls:pause", json!({})),
        ("POST", "/v1/jobs/calls:resume", json!({})),
    ] {
        let answer = match method {
            "PUT" => cell.api.put(path, body).await,
            _ => cell.api.post(path, body).await,
        };
        let answer = answer.unwrap_or_else(|refused| panic!("{method} {path}: {refused:?}"));
        said.push((format!("{method} {path}"), answer.to_string()));
    }
    let mut triggered = Value::Null;
    let events = watched(&cell, async {
        triggered = cell.api.post("/v1/jobs/calls:trigger", json!({})).await.expect("triggered");
    })
    .await;
    said.push(("watching runs".to_owned(), events));
    let run = format!("calls@{}", triggered["scheduledFor"].as_str().expect("an instant"));
    let output = cell.prints(&["logs", &run]);
    assert!(output.contains("billing") && output.contains("***"), "the call tells what it got: {output}");
    said.push(("its output".to_owned(), output));
    let instant = run.split_once('@').map_or("", |(_, instant)| instant);
    for path in [
        "/v1/jobs",
        "/v1/jobs/calls",
        "/v1/jobs/calls/revisions",
        "/v1/jobs/calls/revisions:compare?from=1&to=3",
        "/v1/jobs/calls/runs",
        &format!("/v1/jobs/calls/runs/{instant}"),
        &format!("/v1/jobs/calls:why?time={instant}"),
        "/v1/runs",
        "/v1/status",
        "/v1/auditEvents",
    ] {
        let answer = cell.api.get(path).await.unwrap_or_else(|refused| panic!("{path}: {refused:?}"));
        said.push((path.to_owned(), answer.to_string()));
    }
    let file = cell.folder().join("set.json");
    std::fs::write(&file, set("pl4nted-fourth-value", false).to_string()).expect("written");
    let file = file.display().to_string();
    for arguments in [vec!["export", "jobs"], vec!["describe", "job", "calls"], vec!["diff", "-f", &file]] {
        let output = cell.escapement(&arguments);
        let text = [output.stdout, output.stderr].concat();
        said.push((arguments.join(" "), String::from_utf8_lossy(&text).replace(&file, "")));
    }
    said.extend(files(&cell.folder().join("log")));
    for (place, text) in &said {
        for secret in [PLANTED, &signing["whsec_".len()..]] {
            assert!(!text.contains(secret), "{secret} in {place}: {text}");
        }
    }
    cell.stop().await;
}
