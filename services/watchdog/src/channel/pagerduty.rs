//! PagerDuty, Events API v2: trigger, acknowledge and resolve, which one key for each alert holds together.
//!
//! A test is triggered and resolved, so that it pages nobody for long. 429 and its `Retry-After` are obeyed as any
//! receiver's are. A refused event (400) is tried again like others: the next try may meet another routing key.

use super::{Outcome, beginning, http};
use crate::message::{Event, Message};
use model::ids::instant_text;
use model::severity::Severity;
use serde_json::{Value, json};
use service::egress::Egress;
use std::time::Duration;

/// Characters of a summary, as the API documents it.
const SUMMARY_CHARS_MAX: usize = 1_024;

/// Sends it once.
pub async fn send(
    egress: &Egress,
    url: &str,
    routing_key: &str,
    message: &Message,
    timeout: Duration,
) -> Outcome {
    let mut outcome = Outcome::Received { status: None };
    for event in events(message, routing_key) {
        outcome = http::post(egress, url, event.to_string(), timeout, |request| request).await;
        if !matches!(outcome, Outcome::Received { .. }) {
            break;
        }
    }
    outcome
}

/// What is to be posted, in order.
fn events(message: &Message, routing_key: &str) -> Vec<Value> {
    let event = |action: &str| {
        let mut event =
            json!({ "routing_key": routing_key, "event_action": action, "dedup_key": message.dedup_key });
        if action == "trigger" {
            event["payload"] = payload(message);
            event["client"] = json!("Escapement");
            if let Some(link) = &message.link {
                event["client_url"] = json!(link);
                event["links"] = json!([{ "href": link, "text": "Show in Escapement" }]);
            }
        }
        event
    };
    match message.event {
        Event::Opened | Event::Repeated => vec![event("trigger")],
        Event::Acknowledged => vec![event("acknowledge")],
        Event::Resolved => vec![event("resolve")],
        Event::Test => vec![event("trigger"), event("resolve")],
    }
}

fn payload(message: &Message) -> Value {
    json!({
        "summary": beginning(&message.summary, SUMMARY_CHARS_MAX),
        "source": message.subject.name(),
        "severity": severity(message.severity),
        "timestamp": instant_text(message.since),
        "component": message.subject.name(),
        "class": message.kind,
        "custom_details": {
            "cause": message.cause,
            "count": message.count,
            "since": instant_text(message.since),
            "examples": message.examples,
            "labels": message.labels,
            "what_to_do": message.what_to_do,
        },
    })
}

const fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Critical => "critical",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;
    use uuid::Uuid;

    fn actions(event: Event) -> Vec<Value> {
        let message = Message { event, ..Message::test(Uuid::nil(), "x", DateTime::UNIX_EPOCH) };
        events(&message, "key")
    }

    #[test]
    fn each_event_has_its_action_and_all_of_an_alert_one_key() {
        for (event, expected) in [
            (Event::Opened, &["trigger"] as &[&str]),
            (Event::Repeated, &["trigger"]),
            (Event::Acknowledged, &["acknowledge"]),
            (Event::Resolved, &["resolve"]),
            (Event::Test, &["trigger", "resolve"]),
        ] {
            let events = actions(event);
            let found: Vec<_> =
                events.iter().map(|event| event["event_action"].as_str().unwrap_or("")).collect();
            assert_eq!(found, expected);
            assert!(events.iter().all(|event| event["dedup_key"] == actions(Event::Opened)[0]["dedup_key"]));
        }
    }
}
