//! Alertmanager, API v2: `POST /api/v2/alerts`, one list of alerts.
//!
//! Alertmanager knows an alert by its labels, so these stay the same over an alert's life; what changes is among the
//! annotations. It ends an alert by itself when nobody repeats it by `endsAt`, and keeps nothing over a restart: what is
//! open is told again each [`REFRESH`], with an end [`EXPIRY`] ahead. It has no word for an acknowledgement.

use super::{Outcome, http};
use crate::message::{Event, Message, Subject};
use chrono::{DateTime, Utc};
use model::ids::instant_text;
use serde::Serialize;
use service::egress::Egress;
use std::collections::BTreeMap;
use std::time::Duration;

/// How often what is open is told again, as Prometheus does by default.
pub const REFRESH: Duration = Duration::from_secs(60);

/// How long Alertmanager keeps what nobody tells again: some tries may fail, as with Prometheus' four.
const EXPIRY: chrono::Duration = chrono::Duration::seconds(300);

/// Which Alertmanager, and as whom.
#[derive(Clone, Copy)]
pub struct To<'a> {
    /// Its address.
    pub url: &'a str,
    /// For basic authentication; empty without.
    pub username: &'a str,
    /// The password, or without a user a bearer token.
    pub secret: Option<&'a str>,
}

/// An alert as Alertmanager's API describes `postableAlert`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Alert {
    starts_at: String,
    ends_at: String,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<&'static str, String>,
    #[serde(rename = "generatorURL", skip_serializing_if = "Option::is_none")]
    generator_url: Option<String>,
}

/// Sends them at once.
pub async fn send(
    egress: &Egress,
    to: To<'_>,
    messages: &[Message],
    at: DateTime<Utc>,
    timeout: Duration,
) -> Outcome {
    let told = messages.iter().filter(|message| message.event != Event::Acknowledged);
    let alerts: Vec<_> = told.map(|message| alert(message, at)).collect();
    if alerts.is_empty() {
        return Outcome::Received { status: None };
    }
    let url = format!("{}/api/v2/alerts", to.url.trim_end_matches('/'));
    // Only maps with keys that are no text can fail to serialise; here are none.
    let body = serde_json::to_string(&alerts).unwrap_or_default();
    http::post(egress, &url, body, timeout, |request| match to.secret {
        _ if !to.username.is_empty() => request.basic_auth(to.username, to.secret),
        Some(token) => request.bearer_auth(token),
        None => request,
    })
    .await
}

/// A message as an alert that holds from `at` on for a while, or is over.
fn alert(message: &Message, at: DateTime<Utc>) -> Alert {
    let ends_at = if message.is_end() { message.at } else { at + EXPIRY };
    let mut labels: BTreeMap<_, _> =
        message.labels.iter().map(|(name, value)| (label_name(name), value.clone())).collect();
    // Ours last: nobody's label makes one alert look like another.
    let ours = [
        ("alertname", message.kind.clone()),
        ("alert", message.dedup_key.clone()),
        ("severity", message.severity.as_str().to_lowercase()),
        (subject_label(&message.subject), message.subject.name().to_owned()),
    ];
    labels.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    let mut annotations = BTreeMap::from([
        ("summary", message.summary.clone()),
        ("description", message.what_to_do.clone()),
        ("cause", message.cause.clone()),
        ("count", message.count.to_string()),
    ]);
    if !message.examples.is_empty() {
        annotations.insert("examples", message.examples.join(", "));
    }
    Alert {
        starts_at: instant_text(message.since.min(ends_at)),
        ends_at: instant_text(ends_at),
        labels,
        annotations,
        generator_url: message.link.clone(),
    }
}

const fn subject_label(subject: &Subject) -> &'static str {
    match subject {
        Subject::Job { .. } => "job",
        Subject::CheckIn { .. } => "check_in",
        Subject::System { .. } => "part",
    }
}

/// A label's name as Prometheus allows it: letters, digits and `_`, no digit first.
fn label_name(name: &str) -> String {
    let sound = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let text: String = name.chars().map(sound).collect();
    if text.starts_with(|c: char| c.is_ascii_digit()) { format!("_{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + second, 0).expect("in range")
    }

    #[test]
    fn labels_are_sound_and_stay_the_same_while_the_alert_changes() {
        let labels = [("team".to_owned(), "billing".to_owned()), ("0a.b/c".to_owned(), "x".to_owned())];
        let with_ours = labels.into_iter().chain([("alertname".to_owned(), "mine".to_owned())]).collect();
        let opened =
            Message { event: Event::Opened, labels: with_ours, ..Message::test(Uuid::nil(), "x", at(0)) };
        let resolved =
            Message { event: Event::Resolved, cause: "OTHER".to_owned(), at: at(100), ..opened.clone() };
        let (first, last) = (alert(&opened, at(10)), alert(&resolved, at(110)));
        assert_eq!(first.labels, last.labels);
        assert_eq!(
            first.labels.keys().collect::<Vec<_>>(),
            ["_0a_b_c", "alert", "alertname", "part", "severity", "team"]
        );
        assert_eq!(first.labels["alertname"], "TEST");
        assert_eq!((first.ends_at.as_str(), last.ends_at), ("2026-11-29T09:05:10Z", instant_text(at(100))));
    }
}
