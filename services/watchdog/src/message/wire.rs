//! A message as JSON: what webhooks get and what the outbox keeps.

use super::{Event, Message, Occurrences, Subject};
use chrono::{DateTime, Utc};
use model::ids::{JobId, instant_text};
use model::severity::Severity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use uuid::Uuid;

/// A stored body that is no message.
#[derive(Debug, thiserror::Error)]
#[error("the stored message can't be read")]
pub struct Unreadable(#[source] serde_json::Error);

#[derive(Serialize, Deserialize)]
struct Body {
    #[serde(rename = "type")]
    event: Type,
    timestamp: Instant,
    data: Data,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
enum Type {
    #[serde(rename = "alert.opened")]
    Opened,
    #[serde(rename = "alert.repeated")]
    Repeated,
    #[serde(rename = "alert.acknowledged")]
    Acknowledged,
    #[serde(rename = "alert.resolved")]
    Resolved,
    #[serde(rename = "channel.test")]
    Test,
}

/// In RFC 3339 with `Z`.
#[derive(Clone, Copy, Deserialize)]
struct Instant(DateTime<Utc>);

impl Serialize for Instant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&instant_text(self.0))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    alert_id: Uuid,
    #[serde(default)]
    dedup_key: String,
    #[serde(default)]
    severity: Severity,
    #[serde(default)]
    subject: Option<Named>,
    /// As the subject, for an alert about a job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<Job>,
    kind: String,
    cause: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_occurrence: Option<Instant>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_occurrence: Option<Instant>,
    count: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deadline: Option<Instant>,
    summary: String,
    since: Instant,
    what_to_do: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    examples: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resolved_at: Option<Instant>,
}

#[derive(Serialize, Deserialize)]
struct Named {
    #[serde(rename = "type")]
    kind: SubjectType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Uuid>,
    name: String,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
enum SubjectType {
    Job,
    CheckIn,
    System,
}

#[derive(Serialize, Deserialize)]
struct Job {
    id: JobId,
    name: String,
}

impl Message {
    /// As webhooks get it and the outbox keeps it.
    pub fn body(&self) -> String {
        let occurrences = self.occurrences;
        let body = Body {
            event: kind_of(self.event),
            timestamp: Instant(self.at),
            data: Data {
                alert_id: self.alert_id,
                dedup_key: self.dedup_key.clone(),
                severity: self.severity,
                subject: Some(named(&self.subject)),
                job: match &self.subject {
                    Subject::Job { id, name } => Some(Job { id: *id, name: name.clone() }),
                    Subject::CheckIn { .. } | Subject::System { .. } => None,
                },
                kind: self.kind.clone(),
                cause: self.cause.clone(),
                first_occurrence: occurrences.map(|of| Instant(of.first)),
                last_occurrence: occurrences.map(|of| Instant(of.last)),
                count: self.count,
                deadline: occurrences.map(|of| Instant(of.deadline)),
                summary: self.summary.clone(),
                since: Instant(self.since),
                what_to_do: self.what_to_do.clone(),
                examples: self.examples.clone(),
                labels: self.labels.clone(),
                link: self.link.clone(),
                resolved_at: self.is_end().then_some(Instant(self.at)),
            },
        };
        // Only maps with keys that are no text can fail to serialise; here are none.
        serde_json::to_string(&body).unwrap_or_default()
    }

    /// The message that a body of this or an earlier release holds.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn of_body(body: &str) -> Result<Self, Unreadable> {
        let Body { event, timestamp, data } = serde_json::from_str(body).map_err(Unreadable)?;
        let occurrences = match (data.first_occurrence, data.last_occurrence, data.deadline) {
            (Some(first), Some(last), Some(deadline)) => {
                Some(Occurrences { first: first.0, last: last.0, deadline: deadline.0 })
            }
            _ => None,
        };
        let dedup_key = if data.dedup_key.is_empty() { data.alert_id.to_string() } else { data.dedup_key };
        Ok(Self {
            event: event_of(event),
            at: timestamp.0,
            alert_id: data.alert_id,
            dedup_key,
            severity: data.severity,
            subject: subject(data.subject, data.job),
            kind: data.kind,
            cause: data.cause,
            summary: data.summary,
            what_to_do: data.what_to_do,
            since: data.since.0,
            count: data.count,
            examples: data.examples,
            labels: data.labels,
            link: data.link,
            occurrences,
        })
    }
}

const fn kind_of(event: Event) -> Type {
    match event {
        Event::Opened => Type::Opened,
        Event::Repeated => Type::Repeated,
        Event::Acknowledged => Type::Acknowledged,
        Event::Resolved => Type::Resolved,
        Event::Test => Type::Test,
    }
}

const fn event_of(kind: Type) -> Event {
    match kind {
        Type::Opened => Event::Opened,
        Type::Repeated => Event::Repeated,
        Type::Acknowledged => Event::Acknowledged,
        Type::Resolved => Event::Resolved,
        Type::Test => Event::Test,
    }
}

fn named(subject: &Subject) -> Named {
    let (kind, id) = match subject {
        Subject::Job { id, .. } => (SubjectType::Job, Some(id.0)),
        Subject::CheckIn { id, .. } => (SubjectType::CheckIn, Some(*id)),
        Subject::System { .. } => (SubjectType::System, None),
    };
    Named { kind, id, name: subject.name().to_owned() }
}

/// An earlier release named the job only.
fn subject(named: Option<Named>, job: Option<Job>) -> Subject {
    match (named, job) {
        (Some(Named { kind: SubjectType::Job, id, name }), _) => {
            Subject::Job { id: JobId(id.unwrap_or_default()), name }
        }
        (Some(Named { kind: SubjectType::CheckIn, id, name }), _) => {
            Subject::CheckIn { id: id.unwrap_or_default(), name }
        }
        (Some(Named { kind: SubjectType::System, name, .. }), _) => Subject::System { name },
        (None, Some(Job { id, name })) => Subject::Job { id, name },
        (None, None) => Subject::System { name: String::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + second, 0).expect("in range")
    }

    #[test]
    fn a_message_comes_back_as_it_was_stored() {
        let job = Subject::Job { id: JobId(Uuid::from_u128(7)), name: "invoices".to_owned() };
        for subject in [
            job,
            Subject::CheckIn { id: Uuid::from_u128(8), name: "backup".to_owned() },
            Subject::System { name: "ticker".to_owned() },
        ] {
            for event in [Event::Opened, Event::Repeated, Event::Acknowledged, Event::Resolved, Event::Test] {
                let message = Message {
                    event,
                    subject: subject.clone(),
                    examples: vec!["a@b".to_owned()],
                    labels: [("team".to_owned(), "billing".to_owned())].into(),
                    link: Some("https://escapement.example/alerts/1".to_owned()),
                    occurrences: Some(Occurrences { first: at(0), last: at(60), deadline: at(90) }),
                    ..Message::test(Uuid::from_u128(1), "oncall", at(99))
                };
                assert_eq!(Message::of_body(&message.body()).expect("readable"), message);
            }
        }
    }

    #[test]
    fn what_an_earlier_release_has_stored_is_still_told() {
        let body = r#"{"type":"alert.opened","timestamp":"2026-11-29T09:00:33Z","data":{
            "alertId":"00000000-0000-0000-0000-000000000009","job":{"id":"00000000-0000-0000-0000-000000000007",
            "name":"invoices"},"kind":"NO_SUCCESS","cause":"WAITING","firstOccurrence":"2026-11-29T09:00:00Z",
            "lastOccurrence":"2026-11-29T09:00:00Z","count":1,"deadline":"2026-11-29T09:00:30Z","summary":"s",
            "since":"2026-11-29T09:00:30Z","whatToDo":"w"}}"#;
        let message = Message::of_body(body).expect("readable");
        assert_eq!(
            message.subject,
            Subject::Job { id: JobId(Uuid::from_u128(7)), name: "invoices".to_owned() }
        );
        assert_eq!(
            (message.severity, message.dedup_key),
            (Severity::Critical, Uuid::from_u128(9).to_string())
        );
    }

    #[test]
    fn what_is_no_message_is_said_to_be_none() {
        assert!(Message::of_body("{}").is_err());
    }
}
