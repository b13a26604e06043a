//! Channels end to end: made, tested, told and listed by the command line, with the services as they are.

use harness::receiver::Receiver;
use harness::{Cell, PATIENCE, job, shell};
use serde_json::{Value, json};
use stack::wait::wait_for;

/// The command line is waited for by a thread of its own: the receiver answers meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_is_tested_and_what_was_told_to_it_is_shown() {
    let cell = Cell::start().await;
    let oncall = Receiver::start().await;
    let url = format!("{}/hook", oncall.url);
    let made =
        cell.prints(&["channels", "create", "webhook", "oncall", "--url", &url, "--severity", "critical"]);
    assert_eq!(made, "channel oncall created\n");
    assert!(cell.prints(&["channels", "list"]).contains("CRITICAL"));
    assert_eq!(
        cell.prints(&["channels", "test", "oncall"]),
        "channel oncall: the test was received, with 200\n"
    );
    assert_eq!(oncall.received()[0].json()["type"], "channel.test");

    // Nobody listens there, and the answer says so.
    cell.prints(&[
        "channels",
        "create",
        "slack",
        "nowhere",
        "--secret",
        "http://127.0.0.1:1/s3cret",
        "--severity",
        "info",
    ]);
    let failed = cell.escapement(&["channels", "test", "nowhere"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1));
    assert!(said.contains("not received") && !said.contains("s3cret"), "{said}");

    // A job that names no channel is told to whoever wants what it has to say.
    let mut report = job("report", "* * * * * *", shell("false"));
    report["alert"] = json!({ "successWithin": "2s" });
    cell.api.create(report).await;
    let opened = async || oncall.received().into_iter().find(|got| got.json()["type"] == "alert.opened");
    let opened = wait_for(PATIENCE, "an alert", opened).await;
    assert_eq!(opened.json()["data"]["job"]["name"], "report");
    let delivered = async || {
        let shown = cell.prints(&["channels", "deliveries", "oncall", "-o", "json"]);
        let shown: Value = serde_json::from_str(&shown).expect("JSON");
        let first = shown["deliveries"][0].clone();
        (first["state"] == "DELIVERED").then_some(first)
    };
    let delivered = wait_for(PATIENCE, "the record", delivered).await;
    assert_eq!((&delivered["event"], &delivered["status"]), (&json!("OPENED"), &json!(200)));
    assert_eq!(delivered["id"], opened.header("webhook-id"));
    let nothing = cell.prints(&["channels", "deliveries", "nowhere", "-o", "json"]);
    assert!(!nothing.contains("OPENED"), "it wants only what is good to know: {nothing}");
    assert_eq!(cell.prints(&["channels", "delete", "nowhere"]), "channel nowhere deleted\n");
    cell.stop().await;
}

#[tokio::test]
async fn channels_of_every_kind_are_applied_from_yaml() {
    let cell = Cell::start_with(|mut options| {
        (options.tickers, options.dispatchers, options.agents, options.watchdogs) = (0, 0, 0, 0);
        options
    })
    .await;
    let file = cell.folder().join("channels.yaml");
    let text = "
kind: Channel
name: am
alertmanager: {url: 'http://alertmanager.example:9093'}
---
kind: Channel
name: chat
slack: {url: 'https://hooks.example/services/T0/B0/s3cret'}
match: {labels: {team: billing}, severities: [WARNING, CRITICAL]}
---
kind: Channel
name: mail
email: {host: mail.example, from: escapement@example.com, to: [oncall@example.com]}
system: false
---
kind: Channel
name: pager
pagerduty: {routingKey: a1b2c3d4e5f6a1b2c3d4e5f6a1b2c3d4}
";
    std::fs::write(&file, text).expect("written");
    let path = file.display().to_string();
    let created = cell.prints(&["apply", "-f", &path]);
    for name in ["am", "chat", "mail", "pager"] {
        assert!(created.contains(&format!("channel {name} created")), "{created}");
    }
    let again = cell.prints(&["apply", "-f", &path]);
    assert_eq!(again.lines().filter(|line| line.ends_with(" unchanged")).count(), 4, "{again}");
    let shown = cell.prints(&["channels", "list"]);
    assert!(shown.contains("WARNING CRITICAL team=billing") && !shown.contains("s3cret"), "{shown}");
    cell.stop().await;
}
