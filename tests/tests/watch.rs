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
    let resolved = wait_for(PATIENCE, "its end", async || oncall.received().get(1).cloned()).await;
    assert_eq!(resolved.json()["type"], "alert.resolved");
    cell.stop().await;
}
