//! What people are told: one page that says what is wrong, since when, and what to do.
//!
//! Pure. A [`Message`] is made once, when its event happens, and stored in the outbox as the JSON that webhooks get,
//! byte for byte, at every try; channels of other kinds are told what is read back from there. So names of fields are
//! part of the contract with receivers: they are added to, never changed, and what an earlier release has stored can
//! still be read. How each kind of channel puts it is [`crate::channel`]'s.

mod job;
mod wire;

pub use job::{Alert, detail, missed, opened, resolved, unreadable};
pub use wire::Unreadable;

use chrono::{DateTime, Utc};
use model::ids::JobId;
use model::severity::Severity;
use std::collections::BTreeMap;
use store::alert_delivery;
use uuid::Uuid;

/// Examples that a message has at most; `count` says how many there are.
pub const EXAMPLES_MAX: usize = 5;

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// An alert was opened.
    Opened,
    /// It is still open, and nobody has acknowledged it.
    Repeated,
    /// Somebody looks after it.
    Acknowledged,
    /// It is over.
    Resolved,
    /// Nothing: somebody asked whether the channel works.
    Test,
}

impl Event {
    /// As it is kept in the outbox; none for a test, which is no alert's.
    pub const fn stored(self) -> Option<alert_delivery::Event> {
        match self {
            Self::Opened => Some(alert_delivery::Event::Opened),
            Self::Repeated => Some(alert_delivery::Event::Repeated),
            Self::Acknowledged => Some(alert_delivery::Event::Acknowledged),
            Self::Resolved => Some(alert_delivery::Event::Resolved),
            Self::Test => None,
        }
    }
}

/// Whom or what an alert is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    /// A job of ours.
    Job {
        /// Its identity.
        id: JobId,
        /// Its name.
        name: String,
    },
    /// Something that runs elsewhere and checks in.
    CheckIn {
        /// Its identity.
        id: Uuid,
        /// Its name.
        name: String,
    },
    /// Escapement itself, or what it stands on.
    System {
        /// Which part: `ticker`, `postgresql`, `queue/reports`.
        name: String,
    },
}

impl Subject {
    /// Its name, for people.
    pub fn name(&self) -> &str {
        match self {
            Self::Job { name, .. } | Self::CheckIn { name, .. } | Self::System { name } => name,
        }
    }
}

/// The occurrences that an alert is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrences {
    /// The first one without success.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// By when the last one should have succeeded.
    pub deadline: DateTime<Utc>,
}

/// One event of one alert, as people are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What happened.
    pub event: Event,
    /// When.
    pub at: DateTime<Utc>,
    /// The alert's identity; the nil uuid where there is no row, as when PostgreSQL is gone.
    pub alert_id: Uuid,
    /// By what receivers recognise all messages of one alert; the same whoever sends them, 1 to 255 characters of
    /// ASCII without spaces. The alert's identity, or a text made from the cause.
    pub dedup_key: String,
    /// How grave.
    pub severity: Severity,
    /// Whom or what it is about.
    pub subject: Subject,
    /// What kind of alert: `NO_SUCCESS`.
    pub kind: String,
    /// Why: `WAITING`.
    pub cause: String,
    /// All of it in one sentence, its subject included.
    pub summary: String,
    /// What to do about it, in sentences.
    pub what_to_do: String,
    /// Since when it is so.
    pub since: DateTime<Utc>,
    /// How many occurrences, or jobs, it stands for; from 1.
    pub count: i64,
    /// Some of these, at most [`EXAMPLES_MAX`]: `invoices@2026-11-29T09:00:00Z`. May be empty.
    pub examples: Vec<String>,
    /// Those of the job, or of the check-in.
    pub labels: BTreeMap<String, String>,
    /// Where more can be seen, absolute, if anywhere.
    pub link: Option<String>,
    /// For an alert about occurrences.
    pub occurrences: Option<Occurrences>,
}

impl Message {
    /// Whether it ends its alert.
    pub fn is_end(&self) -> bool {
        self.event == Event::Resolved
    }

    /// The message that asks whether the channel `name` works, at `at`; `id` names the test.
    pub fn test(id: Uuid, name: &str, at: DateTime<Utc>) -> Self {
        Self {
            event: Event::Test,
            at,
            alert_id: id,
            dedup_key: format!("escapement-test-{id}"),
            severity: Severity::Info,
            subject: Subject::System { name: format!("channel/{name}") },
            kind: "TEST".to_owned(),
            cause: "REQUESTED".to_owned(),
            summary: format!("This is a test of the channel {name}: alerts that are told to it arrive here"),
            what_to_do: "Nothing.".to_owned(),
            since: at,
            count: 1,
            examples: Vec::new(),
            labels: BTreeMap::new(),
            link: None,
            occurrences: None,
        }
    }
}
