//! One try of a delivery, on a channel of any kind: one file for each kind, which says what is sent and what an answer means.
//!
//! Sending knows nothing of the outbox: what is sent is a [`Letter`], what it came to an [`Outcome`]. Whatever is spoken,
//! where a channel leads is looked up and checked at each try, no try takes longer than its limit, and neither an address
//! nor a secret gets into an error's text.

mod alertmanager;
mod email;
mod http;
mod pagerduty;
mod slack;
pub mod webhook;

use crate::message::{Event, Message};
use chrono::{DateTime, Utc};
use model::channel::Target;
use service::egress::Egress;
use std::time::Duration;
use uuid::Uuid;

/// How often what receivers forget is told again.
pub const REFRESH_EVERY: Duration = alertmanager::REFRESH;

/// One message for one channel.
#[derive(Clone, Copy)]
pub struct Letter<'a> {
    /// What receivers see at every try of it.
    pub id: Uuid,
    /// The message, as stored: see [`Message::body`].
    pub body: &'a str,
    /// When this try is made.
    pub at: DateTime<Utc>,
    /// Where it goes.
    pub target: &'a Target,
    /// What the target needs besides.
    pub secret: Option<&'a str>,
}

/// What a try came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The receiver has it.
    Received {
        /// Its answer: an HTTP status or a mail server's reply code. None when its kind has no word for the event, so that
        /// nothing was sent.
        status: Option<u16>,
    },
    /// It does not; another try may help.
    Failed {
        /// Its answer, if there was one.
        status: Option<u16>,
        /// What went wrong.
        error: String,
        /// How long it asked not to be asked again, if it did.
        retry_after: Option<Duration>,
    },
    /// It does not, and never will.
    Gone {
        /// Its answer, if there was one.
        status: Option<u16>,
        /// Why.
        error: String,
    },
}

impl Outcome {
    /// A failure without an answer.
    pub fn unanswered(error: impl Into<String>) -> Self {
        Self::Failed { status: None, error: error.into(), retry_after: None }
    }
}

/// Sends it once. Takes no longer than `timeout`.
pub async fn send(egress: &Egress, letter: Letter<'_>, timeout: Duration) -> Outcome {
    let message = match letter.target {
        Target::Webhook { url } => return webhook::send(egress, letter, url, timeout).await,
        _ => match Message::of_body(letter.body) {
            Ok(message) => message,
            Err(error) => return Outcome::unanswered(service::runtime::chain(&error)),
        },
    };
    let secret = letter.secret.unwrap_or_default();
    let sending = async {
        match letter.target {
            Target::Webhook { .. } => Outcome::Received { status: None }, // sent above
            Target::Alertmanager { url, username } => {
                let to = alertmanager::To { url, username, secret: letter.secret };
                alertmanager::send(egress, to, &[message], letter.at, timeout).await
            }
            Target::Pagerduty { url } => pagerduty::send(egress, url, secret, &message, timeout).await,
            Target::Slack => slack::send(egress, secret, &message, timeout).await,
            Target::Email(to) => email::send(egress, to, letter, &message, timeout).await,
        }
    };
    match tokio::time::timeout(timeout, sending).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::unanswered("no answer in time"),
    }
}

/// After which time an opening that was received is to be told again, while its alert is open; none where receivers keep
/// what they got.
pub fn refresh_after(target: &Target) -> Option<Duration> {
    matches!(target, Target::Alertmanager { .. }).then_some(alertmanager::REFRESH)
}

/// Tells openings again that all go to `target`, in one call. Those that can't be read are left out: the outbox told so.
pub async fn refresh(
    egress: &Egress,
    target: &Target,
    secret: Option<&str>,
    bodies: &[&str],
    at: DateTime<Utc>,
    timeout: Duration,
) -> Outcome {
    let Target::Alertmanager { url, username } = target else { return Outcome::Received { status: None } };
    let messages: Vec<_> = bodies.iter().filter_map(|body| Message::of_body(body).ok()).collect();
    if messages.is_empty() {
        return Outcome::Received { status: None };
    }
    let to = alertmanager::To { url, username, secret };
    alertmanager::send(egress, to, &messages, at, timeout).await
}

/// What happened, as the first word of a line for people.
const fn headline(event: Event) -> &'static str {
    match event {
        Event::Opened => "Alert",
        Event::Repeated => "Still open",
        Event::Acknowledged => "Acknowledged",
        Event::Resolved => "Resolved",
        Event::Test => "Test",
    }
}

/// The beginning of a text: `max` characters at most, an ellipsis among them when it is longer.
fn beginning(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}
