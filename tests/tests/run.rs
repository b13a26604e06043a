//! Running: at its second and not before, with everything that the work needs to know, and its end in the ledger.

use chrono::{DateTime, TimeDelta, Utc};
use harness::receiver::Receiver;
use harness::{Cell, instant, job, shell};
use serde_json::json;

#[tokio::test]
async fn a_process_learns_who_it_is_and_its_end_is_in_the_ledger() {
    let cell = Cell::start().await;
    let line = "echo \"$ESCAPEMENT_RUN_ID|$ESCAPEMENT_SCHEDULED_FOR|$ESCAPEMENT_ATTEMPT|$ESCAPEMENT_IDEMPOTENCY_KEY|\
                $ESCAPEMENT_FENCING_TOKEN|$ESCAPEMENT_GUARD_KEY|$ESCAPEMENT_DEADLINE|$GREETING\"";
    let mut told = job(
        "told",
        "* * * * * *",
        json!({"exec": {"argv": [], "shell": line, "env": {"GREETING": "hello"}}}),
    );
    told["overlap"] = json!("FORBID");
    let created = cell.api.create(told).await;
    cell.api.create(job("fails", "* * * * * *", shell("echo out of paper >&2; exit 3"))).await;
    cell.api.create(job("chatty", "* * * * * *", shell("yes 0123456789 | head -n 9000; echo END"))).await;

    let run = &cell.api.wait_for_runs("told", "SUCCEEDED", 2).await[1];
    let output = run["output"].as_str().expect("an output").trim();
    let said: Vec<&str> = output.split('|').collect();
    let scheduled = instant(run, "scheduledFor");
    assert_eq!(said[0], run["name"]);
    assert_eq!(said[1].parse::<DateTime<Utc>>().expect("an instant"), scheduled);
    assert_eq!(said[2], "1");
    assert_eq!(said[3], run["idempotencyKey"]);
    assert_eq!(said[4], run["token"]);
    assert_eq!(said[5], created["id"], "runs that exclude each other share the job's guard key");
    let deadline = said[6].parse::<DateTime<Utc>>().expect("an instant");
    assert!(deadline > scheduled && deadline <= scheduled + TimeDelta::seconds(70), "{deadline}");
    assert_eq!(said[7], "hello");
    assert_eq!(run["exitStatus"], 0);

    let failed = &cell.api.wait_for_runs("fails", "FAILED", 1).await[0];
    assert_eq!((&failed["exitStatus"], &failed["reason"]), (&json!(3), &json!("WORK_FAILED")));
    assert_eq!(failed["output"], "out of paper\n");

    let chatty = &cell.api.wait_for_runs("chatty", "SUCCEEDED", 1).await[0];
    let kept = chatty["output"].as_str().expect("an output");
    assert!(kept.ends_with("\nEND\n") && kept.len() <= 4096 && kept.len() > 4000, "{} bytes", kept.len());
    cell.stop().await;
}

#[tokio::test]
async fn an_http_target_gets_the_same_in_headers_and_no_run_starts_before_its_second() {
    let mut cell = Cell::start().await;
    let target = Receiver::start().await;
    let url = format!("{}/invoices?customer=7", target.url);
    let http =
        json!({"http": {"method": "PUT", "url": url, "headers": {"x-team": "billing"}, "body": "{\"a\":1}"}});
    let mut bill = job("bill", "* * * * * *", http);
    bill["overlap"] = json!("ALLOW");
    cell.api.create(bill).await;
    let missing = json!({"http": {"url": "http://127.0.0.1:9/", "timeout": "1s"}});
    cell.api.create(job("nobody-there", "* * * * * *", missing)).await;

    let runs = cell.api.wait_for_runs("bill", "SUCCEEDED", 5).await;
    for run in &runs {
        let scheduled = instant(run, "scheduledFor");
        let accepted = instant(run, "acceptTime");
        assert!(accepted >= scheduled, "{} started before its second, at {accepted}", run["name"]);
    }
    let received = target.received();
    let request = &received[0];
    let run = runs
        .iter()
        .find(|run| run["name"] == request.header("escapement-run-id"))
        .expect("a run of this name");
    assert_eq!(request.target, "PUT /invoices?customer=7");
    assert_eq!(request.body.as_ref(), b"{\"a\":1}");
    assert_eq!(request.header("x-team"), "billing");
    assert_eq!(run["token"], request.header("escapement-fencing-token"));
    assert_eq!(run["idempotencyKey"], request.header("escapement-idempotency-key"));
    assert_eq!(
        run["idempotencyKey"],
        request.header("escapement-guard-key"),
        "runs side by side: each its own guard"
    );
    assert_eq!(request.header("escapement-attempt"), "1");
    assert_eq!(run["exitStatus"], 200);

    let failed = &cell.api.wait_for_runs("nobody-there", "FAILED", 1).await[0];
    assert!(!failed["error"].as_str().unwrap_or_default().is_empty(), "{failed}");
    let early = "SELECT count(*) FROM run WHERE claimed_at < due_at OR accepted_at < due_at";
    assert_eq!(cell.count(early).await, 0);
    cell.stop().await;
}

#[tokio::test]
async fn forbid_skips_what_would_overlap_and_allow_starts_beside() {
    let cell = Cell::start().await;
    cell.api.create(job("alone", "* * * * * *", shell("sleep 3"))).await;
    let mut beside = job("beside", "* * * * * *", shell("sleep 3"));
    beside["overlap"] = json!("ALLOW");
    cell.api.create(beside).await;
    let skipped = cell.api.wait_for_runs("alone", "SKIPPED", 2).await;
    assert!(skipped.iter().all(|run| run["reason"] == "OVERLAP"), "{skipped:?}");
    let mut done = cell.api.wait_for_runs("alone", "SUCCEEDED", 2).await;
    done.truncate(2);
    assert!(instant(&done[1], "acceptTime") >= instant(&done[0], "finishTime"), "{done:?}");
    let side_by_side = cell.api.wait_for_runs("beside", "SUCCEEDED", 3).await;
    assert!(
        instant(&side_by_side[1], "acceptTime") < instant(&side_by_side[0], "finishTime"),
        "{side_by_side:?}"
    );
    cell.stop().await;
}

#[tokio::test]
async fn a_failed_attempt_is_tried_again_with_a_higher_token() {
    let cell = Cell::start().await;
    let mut flaky = job("flaky", "* * * * * *", shell("test $ESCAPEMENT_ATTEMPT -ge 2"));
    flaky["retry"] = json!({"maxAttempts": 2, "backoff": "0.5s"});
    cell.api.create(flaky).await;
    let run = cell.api.wait_for_runs("flaky", "SUCCEEDED", 1).await[0].clone();
    assert_eq!(run["attempt"], 2);
    let path = format!("/v1/jobs/flaky/runs/{}", run["scheduledFor"].as_str().expect("an instant"));
    let whole = cell.api.get(&path).await.expect("the run");
    let first = &whole["attempts"][0];
    assert_eq!(
        (&first["attempt"], &first["state"], &first["exitStatus"]),
        (&json!(1), &json!("FAILED"), &json!(1))
    );
    assert!(harness::token(first) < harness::token(&whole), "{whole}");
    cell.stop().await;
}
