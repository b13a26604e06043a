//! Channels: how alerts leave the house, and which of them.
//!
//! A job's own list of channels goes first: who is named is told. An alert whose owner names nobody is told to every
//! channel of the tenant that [`Accepts`] it, so that nobody's alert is silent. There is no order among channels and
//! none keeps an alert from another: each says for itself what it wants. Secrets are no part of a [`Target`].

use crate::ids::TenantId;
use crate::policy::named;
use crate::severity::Severity;
use crate::validate::FieldError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod check;

pub use check::{address_problem, mailbox_problem};

named! {
    /// What is spoken on a channel.
    Kind {
        /// JSON, signed as Standard Webhooks describes.
        Webhook = "WEBHOOK",
        /// Prometheus Alertmanager, API v2.
        Alertmanager = "ALERTMANAGER",
        /// PagerDuty, Events API v2.
        Pagerduty = "PAGERDUTY",
        /// Slack, or what takes its incoming webhooks.
        Slack = "SLACK",
        /// Mail.
        Email = "EMAIL",
    }
}

named! {
    /// How a mail server is spoken to.
    #[derive(Default)]
    MailTls {
        /// In the clear first, then encrypted; a server that does not offer it gets nothing.
        #[default]
        Starttls = "STARTTLS",
        /// Encrypted from the first byte.
        Tls = "TLS",
        /// In the clear: only to this machine.
        None = "NONE",
    }
}

/// Where PagerDuty takes events, unless a channel says otherwise.
pub const PAGERDUTY_URL: &str = "https://events.pagerduty.com/v2/enqueue";

/// Where a channel leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// The secret signs; without one nothing is signed.
    Webhook {
        /// Where to post.
        url: String,
    },
    /// The secret is the user's password, or without a user a bearer token.
    Alertmanager {
        /// Its address, without `/api/v2/alerts`.
        url: String,
        /// The user, for basic authentication; may be empty.
        username: String,
    },
    /// The secret is the service's integration key.
    Pagerduty {
        /// Where to post events.
        url: String,
    },
    /// The secret is the address of the incoming webhook.
    Slack,
    /// The secret is the user's password.
    Email(Email),
}

/// A mail server, and who writes to whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Email {
    /// The server's name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is spoken to.
    pub tls: MailTls,
    /// As whom to sign in; empty: not at all.
    pub username: String,
    /// The sender.
    pub from: String,
    /// The receivers.
    pub to: Vec<String>,
}

impl Target {
    /// What is spoken there.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Webhook { .. } => Kind::Webhook,
            Self::Alertmanager { .. } => Kind::Alertmanager,
            Self::Pagerduty { .. } => Kind::Pagerduty,
            Self::Slack => Kind::Slack,
            Self::Email(_) => Kind::Email,
        }
    }

    /// What is wrong with it, and with `secret`, by the API's names of fields. No secret is not wrong here: see
    /// [`Self::secret_missing`].
    pub fn problems(&self, secret: Option<&str>) -> Vec<FieldError> {
        check::problems(self, secret)
    }

    /// What is wrong with having no secret, if it is.
    pub fn secret_missing(&self) -> Option<FieldError> {
        match self {
            Self::Pagerduty { .. } => Some(FieldError::new(
                "pagerduty.routingKey",
                "is missing: give the integration key of the service's Events API v2 integration",
            )),
            Self::Slack => {
                Some(FieldError::new("slack.url", "is missing: give the address of an incoming webhook"))
            }
            Self::Email(email) if !email.username.is_empty() => {
                Some(FieldError::new("email.password", "is missing: give it with email.username, or neither"))
            }
            Self::Alertmanager { username, .. } if !username.is_empty() => Some(FieldError::new(
                "alertmanager.secret",
                "is missing: give the user's password with alertmanager.username, or neither",
            )),
            Self::Webhook { .. } | Self::Alertmanager { .. } | Self::Email(_) => None,
        }
    }
}

/// Which alerts a channel wants of those that name no channel. The default wants all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepts {
    /// Labels that an alert must have, each with this value.
    pub labels: BTreeMap<String, String>,
    /// How grave an alert must be: one of these; any when empty.
    pub severities: Vec<Severity>,
}

impl Accepts {
    /// Whether it wants an alert of this severity with these labels.
    pub fn takes(&self, severity: Severity, labels: &BTreeMap<String, String>) -> bool {
        (self.severities.is_empty() || self.severities.contains(&severity))
            && self.labels.iter().all(|(name, value)| labels.get(name) == Some(value))
    }
}

/// Whether a channel of `tenant` is told of the system's own alerts (no ticker, PostgreSQL gone): those of the default
/// tenant are, the operator's, unless `system` says no; those of another tenant never, for they name what is not theirs.
pub fn is_told_of_the_system(tenant: TenantId, system: Option<bool>) -> bool {
    tenant == TenantId::DEFAULT && system.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_channel_takes_what_has_all_its_labels_and_one_of_its_severities() {
        let all = Accepts::default();
        assert!(all.takes(Severity::Info, &labels(&[])));
        let accepts = Accepts {
            labels: labels(&[("team", "billing"), ("env", "prod")]),
            severities: vec![Severity::Critical, Severity::Warning],
        };
        let both = labels(&[("team", "billing"), ("env", "prod"), ("x", "y")]);
        for (severity, of, taken) in [
            (Severity::Critical, &both, true),
            (Severity::Warning, &both, true),
            (Severity::Info, &both, false),
            (Severity::Critical, &labels(&[("team", "billing")]), false),
            (Severity::Critical, &labels(&[("team", "billing"), ("env", "dev")]), false),
        ] {
            assert_eq!(accepts.takes(severity, of), taken, "{severity} {of:?}");
        }
    }

    #[test]
    fn the_system_is_told_of_where_its_operator_is() {
        let other = TenantId(uuid::Uuid::from_u128(1));
        for (tenant, system, told) in [
            (TenantId::DEFAULT, None, true),
            (TenantId::DEFAULT, Some(true), true),
            (TenantId::DEFAULT, Some(false), false),
            (other, None, false),
            (other, Some(true), false),
        ] {
            assert_eq!(is_told_of_the_system(tenant, system), told, "{tenant} {system:?}");
        }
    }
}
