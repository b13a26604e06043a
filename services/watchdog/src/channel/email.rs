//! Mail over SMTP, in plain text; all mails of one alert are one thread.
//!
//! The server's name is looked up and checked here, and the connection goes to the address that was checked; its
//! certificate must be the name's. A channel without TLS sends to this machine only, whatever its name leads to.
//! Every try of a message has the same `Message-ID`, so that a mailbox that got it twice can tell.

use super::{Letter, Outcome, beginning, headline};
use crate::message::{Event, Message};
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message as Mail, Tokio1Executor};
use model::channel::{Email, MailTls};
use model::ids::instant_text;
use service::egress::Egress;
use service::runtime::chain;
use std::fmt::Write;
use std::time::{Duration, SystemTime};

/// Characters of a subject.
const SUBJECT_CHARS_MAX: usize = 180;

/// What can't be sent at all.
#[derive(Debug, thiserror::Error)]
enum Unsendable {
    #[error("the address {0:?} can't be read")]
    Address(String, #[source] lettre::address::AddressError),
    #[error("the mail can't be put together")]
    Mail(#[source] lettre::error::Error),
    #[error("TLS can't be set up")]
    Tls(#[source] lettre::transport::smtp::Error),
    #[error("{0} is not this machine: without TLS a mail goes nowhere else, use STARTTLS or TLS")]
    Clear(String),
}

/// Sends it once.
pub async fn send(
    egress: &Egress,
    to: &Email,
    letter: Letter<'_>,
    message: &Message,
    timeout: Duration,
) -> Outcome {
    let address = match egress.resolve(&to.host, to.port).await {
        Ok(address) => address,
        Err(refused) => return Outcome::unanswered(refused.to_string()),
    };
    let ready = mail(to, letter, message).and_then(|mail| {
        let transport = transport(to, address, letter.secret, timeout)?;
        Ok((mail, transport))
    });
    let (mail, transport) = match ready {
        Ok(ready) => ready,
        Err(unsendable) => return Outcome::unanswered(chain(&unsendable)),
    };
    match transport.send(mail).await {
        Ok(reply) => Outcome::Received { status: Some(reply.code().into()) },
        Err(error) => Outcome::Failed {
            status: error.status().map(u16::from),
            error: beginning(&chain(&error), 256),
            retry_after: None,
        },
    }
}

fn transport(
    to: &Email,
    address: std::net::SocketAddr,
    password: Option<&str>,
    timeout: Duration,
) -> Result<AsyncSmtpTransport<Tokio1Executor>, Unsendable> {
    let parameters = || TlsParameters::new_rustls(to.host.clone()).map_err(Unsendable::Tls);
    let tls = match to.tls {
        MailTls::Starttls => Tls::Required(parameters()?),
        MailTls::Tls => Tls::Wrapper(parameters()?),
        MailTls::None if address.ip().is_loopback() => Tls::None,
        MailTls::None => return Err(Unsendable::Clear(to.host.clone())),
    };
    let builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(address.ip().to_string())
        .port(address.port())
        .timeout(Some(timeout))
        .tls(tls);
    let credentials = password.filter(|_| !to.username.is_empty());
    Ok(match credentials {
        Some(password) => {
            builder.credentials(Credentials::new(to.username.clone(), password.to_owned())).build()
        }
        None => builder.build(),
    })
}

fn mail(to: &Email, letter: Letter<'_>, message: &Message) -> Result<Mail, Unsendable> {
    let mailbox = |text: &String| {
        text.parse()
            .map(|address| Mailbox::new(None, address))
            .map_err(|error| Unsendable::Address(text.clone(), error))
    };
    let domain = to.from.rsplit('@').next().unwrap_or_default();
    let first = thread(message, domain);
    let id = match message.event {
        Event::Opened | Event::Test => first.clone(),
        Event::Repeated | Event::Acknowledged | Event::Resolved => format!("<{}@{domain}>", letter.id),
    };
    let mut builder = Mail::builder()
        .from(mailbox(&to.from)?)
        .subject(subject(message))
        .date(SystemTime::from(message.at))
        .message_id(Some(id.clone()))
        .header(ContentType::TEXT_PLAIN);
    for receiver in &to.to {
        builder = builder.to(mailbox(receiver)?);
    }
    if id != first {
        builder = builder.in_reply_to(first.clone()).references(first);
    }
    builder.body(text(message)).map_err(Unsendable::Mail)
}

/// The `Message-ID` of an alert's opening, to which all others of it are replies.
fn thread(message: &Message, domain: &str) -> String {
    let key: String =
        message.dedup_key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("<{key}@{domain}>")
}

fn subject(message: &Message) -> String {
    let state = match message.event {
        Event::Opened | Event::Repeated => message.severity.as_str(),
        Event::Acknowledged | Event::Resolved | Event::Test => headline(message.event),
    };
    let summary: String = message.summary.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    beginning(&format!("[{state}] {summary}"), SUBJECT_CHARS_MAX)
}

fn text(message: &Message) -> String {
    let mut text = format!("{}: {}\n\n", headline(message.event), message.summary);
    let mut line = |name: &str, value: &str| {
        // Writing to a text can't fail.
        let _ = writeln!(text, "{name:<10}{value}");
    };
    line("Subject", message.subject.name());
    line("Severity", message.severity.as_str());
    line("Since", &instant_text(message.since));
    line("Cause", &message.cause);
    line("Count", &message.count.to_string());
    if !message.examples.is_empty() {
        line("Examples", &message.examples.join(", "));
    }
    let labels: Vec<_> = message.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if !labels.is_empty() {
        line("Labels", &labels.join(", "));
    }
    if let Some(link) = &message.link {
        line("More", link);
    }
    if !message.is_end() {
        text += &format!("\nWhat to do: {}\n", message.what_to_do);
    }
    text += &format!("\n-- \nEscapement, alert {}\n", message.alert_id);
    text
}
