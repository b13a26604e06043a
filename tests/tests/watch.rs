//! Watching: a success that is missing is told once, and told again when all is well; even with no ticker alive.

use harness::receiver::{Received, Receiver};
use harness::{Cell, PATIENCE, job, names, shell};
use serde_json::json;
use stack::dev::Role;
use stack::wait::wait_for;

#[tokio::test]
async fn a_missing_success_is_told_once_and_its_end_once() {
    let cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": format!("{}/hook", oncall.url)}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    let mark = cell.folder().join("repaired");
    let mut report = job("report", "* * * * * *", shell(&format!("test -e {}", mark.display())));
    report["alert"] = json!({"successWithin": "2s", "channels": ["oncall"]});
    cell.api.create(report).await;

    let opened = wait_for(PATIENCE, "an alert", async || oncall.received().first().cloned()).await;
    let body = opened.json();
    assert_eq!(body["type"], "alert.opened");
    assert_eq!(body["data"]["job"]["name"], "report");
    assert_eq!(body["data"]["cause"], "FAILED");
    assert!(!opened.header("webhook-id").is_empty() && !opened.header("webhook-timestamp").is_empty());
    cell.api.wait_for_runs("report", "FAILED", 10).await;
    assert_eq!(oncall.received().len(), 1, "ten failures are one alert: {:?}", oncall.received());

    std::fs::write(&mark, "").expect("repaired");
    let resolved = wait_for(PATIENCE, "its end", async || oncall.received().get(1).cloned()).await;
    assert_eq!(resolved.json()["type"], "alert.resolved");
    assert_eq!(resolved.json()["data"]["alertId"], body["data"]["alertId"]);
    cell.api.wait_for_runs("report", "SUCCEEDED", 10).await;
    assert_eq!(oncall.received().len(), 2);
    cell.stop().await;
}

#[tokio::test]
async fn the_alert_comes_with_every_ticker_dead() {
    let mut cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": oncall.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    for name in names(&cell.stack, Role::Ticker) {
        cell.stack.service(&name).expect("a ticker").process().kill().expect("killed");
    }
    let mut report = job("report", "* * * * * *", shell("true"));
    report["alert"] = json!({"successWithin": "2s", "channels": ["oncall"]});
    cell.api.create(report).await;
    let opened: Received = wait_for(PATIENCE, "an alert", async || oncall.received().first().cloned()).await;
    assert_eq!(opened.json()["data"]["cause"], "NEVER_PLANNED");

    for name in ["ticker-1", "ticker-2"] {
        cell.stack.restart(name).await.expect("it starts again");
    }
    // What is told of the tickers themselves, when they are missed for long enough, comes beside it.
    let ended = |told: &serde_json::Value| {
        told["type"] == "alert.resolved" && told["data"]["job"]["name"] == "report"
    };
    wait_for(PATIENCE, "its end", async || oncall.received().iter().map(Received::json).find(ended)).await;
    cell.stop().await;
}

/// The messages about `job` of this kind that have come, in order.
fn about(oncall: &Receiver, job: &str, kind: &str) -> Vec<serde_json::Value> {
    let all = oncall.received().iter().map(Received::json).collect::<Vec<_>>();
    all.into_iter()
        .filter(|body| body["data"]["job"]["name"] == job && body["data"]["kind"] == kind)
        .collect()
}

async fn first(oncall: &Receiver, job: &str, kind: &str, event: &str) -> serde_json::Value {
    wait_for(PATIENCE, &format!("{event} of {job}, {kind}"), async || {
        about(oncall, job, kind).into_iter().find(|body| body["type"] == event)
    })
    .await
}

#[tokio::test]
async fn owners_are_told_of_what_they_ask_for_and_the_deadline_adds_no_page() {
    let cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": oncall.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    let mark = cell.folder().join("repaired");
    let repaired = format!("test -e {}", mark.display());
    let asking = [
        ("failing", repaired.as_str(), json!({"failed": true}), "3s"),
        ("again", repaired.as_str(), json!({"failuresInRow": 3}), "3600s"),
        ("recovering", repaired.as_str(), json!({"recovered": true}), "3600s"),
        ("slow", "sleep 4", json!({"runtimeOver": "1s"}), "3600s"),
        ("overlapping", "sleep 3", json!({"skippedByOverlap": true}), "3600s"),
    ];
    for (name, line, on, within) in asking {
        let mut asking = job(name, "* * * * * *", shell(line));
        asking["alert"] = json!({"successWithin": within, "channels": ["oncall"], "on": on});
        cell.api.create(asking).await;
    }
    let failed = first(&oncall, "failing", "FAILED", "alert.opened").await;
    assert_eq!(
        (&failed["data"]["cause"], &failed["data"]["severity"]),
        (&json!("FAILED"), &json!("WARNING"))
    );
    let again = first(&oncall, "again", "FAILURES_IN_ROW", "alert.opened").await;
    assert!(again["data"]["summary"].as_str().is_some_and(|text| text.contains("in a row")), "{again}");
    let slow = first(&oncall, "slow", "RUNTIME", "alert.opened").await;
    assert_eq!(slow["data"]["cause"], "SLOW");
    let skipped = first(&oncall, "overlapping", "SKIPPED_OVERLAP", "alert.opened").await;
    assert_eq!(skipped["data"]["cause"], "SKIPPED");
    cell.api.wait_for_runs("failing", "FAILED", 8).await;
    assert_eq!(
        about(&oncall, "failing", "NO_SUCCESS"),
        Vec::<serde_json::Value>::new(),
        "one event, one page"
    );
    assert_eq!(about(&oncall, "recovering", "FAILED"), Vec::<serde_json::Value>::new());

    std::fs::write(&mark, "").expect("repaired");
    for (name, kind) in [("failing", "FAILED"), ("again", "FAILURES_IN_ROW"), ("recovering", "FAILED")] {
        let resolved = first(&oncall, name, kind, "alert.resolved").await;
        assert!(resolved["data"]["summary"].as_str().is_some_and(|text| text.contains("succeeded again")));
    }
    assert_eq!(about(&oncall, "failing", "FAILED").len(), 2);
    assert_eq!(about(&oncall, "failing", "NO_SUCCESS").len(), 0);
    cell.stop().await;
}

#[tokio::test]
async fn people_acknowledge_silence_and_resolve_alerts() {
    let cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let channel = json!({"name": "oncall", "webhook": {"url": oncall.url}});
    cell.api.post("/v1/channels", channel).await.expect("stored");
    for name in ["one", "two"] {
        let mut failing = job(name, "* * * * * *", shell("false"));
        failing["labels"] = json!({"team": "billing"});
        failing["alert"] = json!({"successWithin": "2s", "channels": ["oncall"], "severity": "WARNING"});
        cell.api.create(failing).await;
    }
    let one = first(&oncall, "one", "NO_SUCCESS", "alert.opened").await;
    let two = first(&oncall, "two", "NO_SUCCESS", "alert.opened").await;
    let (one, two) = (&one["data"]["alertId"], &two["data"]["alertId"]);
    let id = |alert: &serde_json::Value| alert.as_str().expect("an id").to_owned();

    let listed = cell.prints(&["alerts", "list", "--job", "one"]);
    assert!(
        listed.contains(&id(one)) && listed.contains("warning") && !listed.contains(&id(two)),
        "{listed}"
    );
    let said = cell.prints(&["alerts", "ack", &id(one), "--reason", "looking"]);
    assert!(said.contains("is acknowledged by"), "{said}");
    let told = first(&oncall, "one", "NO_SUCCESS", "alert.acknowledged").await;
    assert_eq!((&told["data"]["alertId"], &told["data"]["labels"]["team"]), (one, &json!("billing")));
    let again = cell.escapement(&["alerts", "silence", &id(one), "--for", "60"]);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && said.contains("is acknowledged"), "{said}");

    let said = cell.prints(&["alerts", "silence", &id(two), "--for", "3600"]);
    assert!(said.contains("is silenced until"), "{said}");
    let silenced = cell.api.get("/v1/alerts?states=SILENCED").await.expect("listed");
    assert_eq!(silenced["alerts"].as_array().map(Vec::len), Some(1));
    assert_eq!(&silenced["alerts"][0]["id"], two);
    cell.prints(&["alerts", "resolve", &id(two), "--reason", "gone"]);
    first(&oncall, "two", "NO_SUCCESS", "alert.resolved").await;
    let found = cell.api.get(&format!("/v1/alerts/{}", id(two))).await.expect("found");
    let history: Vec<_> =
        found["history"].as_array().expect("a history").iter().map(|event| &event["what"]).collect();
    assert_eq!(history, ["OPENED", "SILENCED", "RESOLVED"]);
    assert_eq!(found["resolution"], "BY_HAND");
    let refused = cell.api.post(&format!("/v1/alerts/{}:acknowledge", id(two)), json!({})).await;
    assert_eq!(refused.expect_err("it is over").status, 409);
    let page = cell.api.get("/v1/alerts?pageSize=1").await.expect("listed");
    let token = page["nextPageToken"].as_str().expect("more follow");
    let next = cell.api.get(&format!("/v1/alerts?pageSize=1&pageToken={token}")).await.expect("listed");
    assert_ne!(page["alerts"][0]["id"], next["alerts"][0]["id"]);
    cell.stop().await;
}
