//! A channel as a person writes it and reads it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use model::channel::{Accepts, Email, MailTls, PAGERDUTY_URL, Target};
use model::ids::TenantId;
use model::severity::Severity;
use model::validate::{self, FieldError, limits};
use rpc::auth::Role;
use rpc::convert::time;
use rpc::fields::{self, Difference};
use rpc::v1;
use rpc::v1::channel::Target as Given;
use store::alert_channel::Channel;
use uuid::Uuid;

/// How a signing secret begins.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a signing secret, decoded.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Stands for a secret, and for one that took its place.
const SECRET_KEPT: &str = "…";
const SECRET_OTHER: &str = "… (another one)";
/// Stands for what follows the host of an address.
const PATH_LEFT_OUT: &str = "/…";
/// Bytes of a label's value.
const LABEL_BYTES_MAX: usize = 256;

/// A channel as a person wrote it.
#[derive(Clone)]
pub struct Written {
    /// Its name.
    pub name: String,
    target: Target,
    secret: Option<String>,
    accepts: Accepts,
    system: Option<bool>,
}

impl Written {
    /// As it is to be stored at `at`: the same one with another target, or a new one. No secret keeps the stored one,
    /// for whoever writes back what was read never saw it.
    ///
    /// # Errors
    /// When its kind needs a secret and neither has one, or when `tenant` may not be told of the system.
    pub fn over(
        &self,
        stored: Option<&Channel>,
        tenant: TenantId,
        at: DateTime<Utc>,
    ) -> Result<Channel, FieldError> {
        if self.system == Some(true) && tenant != TenantId::DEFAULT {
            let message = "only the default tenant's channels are told of the system: leave it out";
            return Err(FieldError::new("system", message));
        }
        let kept = stored.filter(|stored| stored.target.kind() == self.target.kind());
        let secret = self.secret.clone().or_else(|| kept.and_then(|stored| stored.secret.clone()));
        match self.target.secret_missing() {
            Some(missing) if secret.is_none() => Err(missing),
            _ => Ok(Channel {
                id: stored.map_or_else(Uuid::new_v4, |stored| stored.id),
                tenant_id: tenant,
                name: self.name.clone(),
                target: self.target.clone(),
                secret,
                accepts: self.accepts.clone(),
                system: self.system,
                created_at: stored.map_or(at, |stored| stored.created_at),
            }),
        }
    }
}

/// Reads a channel and finds everything that is wrong with it, but for a missing secret.
///
/// # Errors
/// Every wrong field, as the API spells it.
pub fn read(channel: &v1::Channel) -> Result<Written, Vec<FieldError>> {
    let mut errors: Vec<_> = validate::name("name", &channel.name).into_iter().collect();
    let accepts = accepts(channel.r#match.as_ref(), &mut errors);
    let Some(given) = &channel.target else {
        let message = "is missing: give one of webhook, alertmanager, pagerduty, slack, email";
        errors.push(FieldError::new("webhook", message));
        return Err(errors);
    };
    let (target, secret) = target(given, &mut errors);
    errors.extend(target.problems(secret.as_deref()));
    errors.extend(cut_address(given));
    if let Given::Webhook(webhook) = given
        && !webhook.secret.is_empty()
        && !is_secret(&webhook.secret)
    {
        // The value is not repeated: it may be a secret of something else.
        let message = "use whsec_ and base64 of 24 to 64 bytes, or none for unsigned posts";
        errors.push(FieldError::new("webhook.secret", message));
    }
    if errors.is_empty() {
        Ok(Written { name: channel.name.clone(), target, secret, accepts, system: channel.system })
    } else {
        Err(errors)
    }
}

fn target(given: &Given, errors: &mut Vec<FieldError>) -> (Target, Option<String>) {
    let (target, secret) = match given {
        Given::Webhook(webhook) => (Target::Webhook { url: webhook.url.clone() }, &webhook.secret),
        Given::Alertmanager(alertmanager) => {
            let (url, username) = (alertmanager.url.clone(), alertmanager.username.clone());
            (Target::Alertmanager { url, username }, &alertmanager.secret)
        }
        Given::Pagerduty(pagerduty) => {
            let url = if pagerduty.url.is_empty() { PAGERDUTY_URL } else { &pagerduty.url };
            (Target::Pagerduty { url: url.to_owned() }, &pagerduty.routing_key)
        }
        Given::Slack(slack) => (Target::Slack, &slack.url),
        Given::Email(email) => (Target::Email(mail(email, errors)), &email.password),
    };
    (target, (!secret.is_empty()).then(|| secret.clone()))
}

fn mail(email: &v1::Email, errors: &mut Vec<FieldError>) -> Email {
    let tls = if email.tls.is_empty() { Ok(MailTls::default()) } else { email.tls.parse() };
    let tls = tls.unwrap_or_else(|_| {
        errors.push(FieldError::new("email.tls", format!("{:?}: use STARTTLS, TLS or NONE", email.tls)));
        MailTls::default()
    });
    let port = match (email.port, tls) {
        (0, MailTls::Starttls) => 587,
        (0, MailTls::Tls) => 465,
        (0, MailTls::None) => 25,
        (port, _) => u16::try_from(port).unwrap_or(0), // which is refused
    };
    Email {
        host: email.host.clone(),
        port,
        tls,
        username: email.username.clone(),
        from: email.from.clone(),
        to: email.to.clone(),
    }
}

fn accepts(given: Option<&v1::Match>, errors: &mut Vec<FieldError>) -> Accepts {
    let Some(given) = given else { return Accepts::default() };
    if given.labels.len() > limits::LABELS {
        let message = format!("{} labels: use at most {}", given.labels.len(), limits::LABELS);
        errors.push(FieldError::new("match.labels", message));
    }
    if given.labels.iter().any(|(name, value)| name.len().max(value.len()) > LABEL_BYTES_MAX) {
        let message = format!("a name or value has more than {LABEL_BYTES_MAX} bytes: no job's label has");
        errors.push(FieldError::new("match.labels", message));
    }
    let mut severities = Vec::new();
    for (index, name) in given.severities.iter().enumerate() {
        match name.parse::<Severity>() {
            Ok(severity) if severities.contains(&severity) => {}
            Ok(severity) => severities.push(severity),
            Err(_) => {
                let message = format!("{name:?}: use INFO, WARNING or CRITICAL");
                errors.push(FieldError::new(format!("match.severities[{index}]"), message));
            }
        }
    }
    Accepts { labels: given.labels.clone().into_iter().collect(), severities }
}

fn is_secret(text: &str) -> bool {
    let bytes = text.strip_prefix(SECRET_PREFIX).and_then(|base64| STANDARD.decode(base64).ok());
    bytes.is_some_and(|bytes| SECRET_BYTES.contains(&bytes.len()))
}

/// As the API answers it to somebody of `role`: without its secret, and to who only reads without what follows the host of
/// its address, which is often a secret too.
pub fn message(channel: Channel, role: Role) -> v1::Channel {
    let mut shown = with_secret_as(channel, "");
    if !role.allows(Role::Editor) {
        match &mut shown.target {
            Some(Given::Webhook(webhook)) => leave_out_path(&mut webhook.url),
            Some(Given::Alertmanager(alertmanager)) => leave_out_path(&mut alertmanager.url),
            Some(Given::Pagerduty(pagerduty)) => leave_out_path(&mut pagerduty.url),
            Some(Given::Slack(_) | Given::Email(_)) | None => {}
        }
    }
    shown
}

fn leave_out_path(url: &mut String) {
    let host = url.find("//").map_or(0, |at| at + 2);
    let end = url[host..].find(['/', '?', '#']).map(|at| host + at);
    if let Some(end) = end.filter(|end| url[*end..] != *"/" && url != PAGERDUTY_URL) {
        url.truncate(end);
        url.push_str(PATH_LEFT_OUT);
    }
}

/// What was read by somebody who was not shown all of it can't be written back.
fn cut_address(given: &Given) -> Option<FieldError> {
    let (field, url) = match given {
        Given::Webhook(webhook) => ("webhook.url", &webhook.url),
        Given::Alertmanager(alertmanager) => ("alertmanager.url", &alertmanager.url),
        Given::Pagerduty(pagerduty) => ("pagerduty.url", &pagerduty.url),
        Given::Slack(_) | Given::Email(_) => return None,
    };
    let message = "ends where it was cut for somebody who only reads: give the whole address";
    url.ends_with(PATH_LEFT_OUT).then(|| FieldError::new(field, message))
}

/// The fields that differ between two channels, by path; of a secret only that it differs.
pub fn differences(before: &Channel, after: &Channel) -> Vec<Difference> {
    let other = if before.secret == after.secret { SECRET_KEPT } else { SECRET_OTHER };
    let before = with_secret_as(before.clone(), before.secret.as_ref().map_or("", |_| SECRET_KEPT));
    let after = with_secret_as(after.clone(), after.secret.as_ref().map_or("", |_| other));
    fields::differences_of("escapement.v1.Channel", &before, &after)
}

fn with_secret_as(channel: Channel, shown: &str) -> v1::Channel {
    let Channel { name, target, accepts, system, created_at, .. } = channel;
    let hidden = || shown.to_owned();
    let target = match target {
        Target::Webhook { url } => Given::Webhook(v1::Webhook { url, secret: hidden() }),
        Target::Alertmanager { url, username } => {
            Given::Alertmanager(v1::Alertmanager { url, username, secret: hidden() })
        }
        Target::Pagerduty { url } => Given::Pagerduty(v1::Pagerduty { routing_key: hidden(), url }),
        Target::Slack => Given::Slack(v1::Slack { url: hidden() }),
        Target::Email(email) => Given::Email(v1::Email {
            host: email.host,
            port: email.port.into(),
            tls: email.tls.to_string(),
            username: email.username,
            password: hidden(),
            from: email.from,
            to: email.to,
        }),
    };
    let wants_all = accepts == Accepts::default();
    v1::Channel {
        name,
        target: Some(target),
        create_time: Some(time::timestamp(created_at)),
        r#match: (!wants_all).then(|| v1::Match {
            labels: accepts.labels.into_iter().collect(),
            severities: accepts.severities.iter().map(ToString::to_string).collect(),
        }),
        system,
    }
}

#[cfg(test)]
mod tests;
