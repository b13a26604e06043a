//! Looking on: what a run writes is seen while it runs, complete at its end, and without secrets.

use harness::{Cell, PATIENCE, job, shell};
use serde_json::json;
use stack::wait::wait_for;
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
