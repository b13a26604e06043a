//! What a channel's target may contain. A value that is a secret, or may be one of something else, is not repeated.

use super::{Email, MailTls, Target};
use crate::validate::{FieldError, url_problem};
use std::net::IpAddr;

/// Bytes of an address.
const URL_BYTES_MAX: usize = 2_048;
/// Bytes of a secret.
const SECRET_BYTES_MAX: usize = 2_048;
/// Bytes of a user's name.
const USERNAME_BYTES_MAX: usize = 256;
/// Receivers of a mail.
const RECEIVERS_MAX: usize = 20;
/// Bytes of a mail address (RFC 5321, section 4.5.3.1.3, without the brackets).
const MAILBOX_BYTES_MAX: usize = 254;
/// Bytes of a host's name (RFC 1035, section 2.3.4, as text).
const HOST_BYTES_MAX: usize = 253;

pub fn problems(target: &Target, secret: Option<&str>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match target {
        Target::Webhook { url } => errors.extend(url_at("webhook.url", url)),
        Target::Alertmanager { url, username } => {
            errors.extend(url_at("alertmanager.url", url));
            errors.extend(text_at("alertmanager.username", username, USERNAME_BYTES_MAX));
            errors.extend(secret.and_then(|secret| secret_at("alertmanager.secret", secret)));
        }
        Target::Pagerduty { url } => {
            errors.extend(url_at("pagerduty.url", url));
            let is_key = |key: &str| key.len() == 32 && key.bytes().all(|byte| byte.is_ascii_alphanumeric());
            if secret.is_some_and(|key| !is_key(key)) {
                let message = "use the 32 letters and digits of the service's integration key";
                errors.push(FieldError::new("pagerduty.routingKey", message));
            }
        }
        Target::Slack => {
            let is_wrong = |url: &str| url.len() > URL_BYTES_MAX || url_problem(url).is_some();
            if secret.is_some_and(is_wrong) {
                let message = format!(
                    "use the http or https address of an incoming webhook, at most {URL_BYTES_MAX} bytes"
                );
                errors.push(FieldError::new("slack.url", message));
            }
        }
        Target::Email(email) => {
            mail(email, &mut errors);
            errors.extend(secret.and_then(|secret| secret_at("email.password", secret)));
        }
    }
    errors
}

fn mail(email: &Email, errors: &mut Vec<FieldError>) {
    if let Some(problem) = host_problem(&email.host) {
        errors.push(FieldError::new("email.host", problem));
    } else if email.tls == MailTls::None && !is_this_machine(&email.host) {
        let message = format!(
            "NONE sends in the clear to {}: use STARTTLS or TLS, or a server on localhost",
            email.host
        );
        errors.push(FieldError::new("email.tls", message));
    }
    if email.port == 0 {
        errors.push(FieldError::new("email.port", "0: use 1 to 65535"));
    }
    errors.extend(text_at("email.username", &email.username, USERNAME_BYTES_MAX));
    if let Some(problem) = mailbox_problem(&email.from) {
        errors.push(FieldError::new("email.from", problem));
    }
    if email.to.is_empty() {
        errors.push(FieldError::new("email.to", "is missing: give 1 to 20 addresses"));
    } else if email.to.len() > RECEIVERS_MAX {
        let message = format!("{} addresses: use at most {RECEIVERS_MAX}", email.to.len());
        errors.push(FieldError::new("email.to", message));
    }
    for (index, to) in email.to.iter().take(RECEIVERS_MAX).enumerate() {
        if let Some(problem) = mailbox_problem(to) {
            errors.push(FieldError::new(format!("email.to[{index}]"), problem));
        }
    }
}

fn url_at(field: &str, url: &str) -> Option<FieldError> {
    if url.len() > URL_BYTES_MAX {
        let message = format!("has {} bytes: use at most {URL_BYTES_MAX}", url.len());
        return Some(FieldError::new(field, message));
    }
    url_problem(url).map(|problem| FieldError::new(field, problem))
}

fn text_at(field: &str, text: &str, most: usize) -> Option<FieldError> {
    let problem = if text.len() > most {
        format!("has {} bytes: use at most {most}", text.len())
    } else if text.chars().any(char::is_control) {
        "contains a line break or another control character".to_owned()
    } else {
        return None;
    };
    Some(FieldError::new(field, problem))
}

fn secret_at(field: &str, secret: &str) -> Option<FieldError> {
    text_at(field, secret, SECRET_BYTES_MAX)
}

fn host_problem(host: &str) -> Option<String> {
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if host.is_empty() {
        Some("is missing: give the mail server's name or address".to_owned())
    } else if host.len() > HOST_BYTES_MAX {
        Some(format!("has {} bytes: use at most {HOST_BYTES_MAX}", host.len()))
    } else if host.parse::<IpAddr>().is_err() && !host.chars().all(is_name_char) {
        Some(format!("{host:?} is no host's name or address: use one such as mail.example, without a port"))
    } else {
        None
    }
}

/// A name can't be looked up here: what it leads to is checked again when something is sent.
fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// What is wrong with a mail address, if anything: it is plain, without a display name, and ends up in a header.
pub fn mailbox_problem(mailbox: &str) -> Option<String> {
    let is_plain =
        |c: char| c.is_ascii_graphic() && !matches!(c, '<' | '>' | ',' | ';' | ':' | '"' | '(' | ')' | '\\');
    let parts = mailbox.split_once('@');
    let sound = parts.is_some_and(|(user, host)| {
        !user.is_empty() && !host.contains('@') && host_problem(host).is_none() && user.chars().all(is_plain)
    });
    if mailbox.is_empty() {
        Some("is missing: give an address such as oncall@example.com".to_owned())
    } else if mailbox.len() > MAILBOX_BYTES_MAX {
        Some(format!("has {} bytes: use at most {MAILBOX_BYTES_MAX}", mailbox.len()))
    } else if !sound {
        Some(format!("{mailbox:?} is no plain mail address: use one such as oncall@example.com"))
    } else {
        None
    }
}

/// What is wrong with the host and port of an `http` address, if anything; `authority` is what is between `//` and the
/// path.
pub fn address_problem(authority: &str) -> Option<String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((literal, after)) = rest.split_once(']') else {
                return Some(format!("{authority:?}: the bracket of the IPv6 address is not closed"));
            };
            if literal.parse::<std::net::Ipv6Addr>().is_err() {
                return Some(format!("{literal:?} is no IPv6 address"));
            }
            match after.strip_prefix(':') {
                Some(port) => ("[]", Some(port)),
                None if after.is_empty() => ("[]", None),
                None => return Some(format!("{authority:?}: after the IPv6 address only a port may follow")),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Some("the host is missing".to_owned());
    }
    if let Some(bad) = host.chars().find(|c| "\\^|<>{}`\"%[".contains(*c) && host != "[]") {
        return Some(format!("the host contains {bad:?}"));
    }
    let is_port = |port: &str| {
        port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    };
    match port {
        Some(port) if !is_port(port) => Some(format!("the port is {port:?}: use 1 to 65535")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(target: &Target, secret: Option<&str>) -> Vec<String> {
        problems(target, secret).into_iter().map(|error| error.field).collect()
    }

    fn email() -> Email {
        Email {
            host: "mail.example".to_owned(),
            port: 587,
            tls: MailTls::Starttls,
            username: String::new(),
            from: "escapement@example.com".to_owned(),
            to: vec!["oncall@example.com".to_owned()],
        }
    }

    #[test]
    fn hosts_and_ports_are_checked() {
        for (authority, wrong) in [
            ("h", false),
            ("h:1", false),
            ("h:65535", false),
            ("[::1]", false),
            ("[::1]:80", false),
            ("192.0.2.1:80", false),
            ("h:99999", true),
            ("h:0", true),
            ("h:", true),
            ("h:+1", true),
            (":80", true),
            ("[::1", true),
            ("[nonsense]", true),
            ("[::1]x", true),
            ("a:b:c", true),
            ("h|x", true),
        ] {
            assert_eq!(address_problem(authority).is_some(), wrong, "{authority}");
        }
    }

    #[test]
    fn mail_goes_in_the_clear_to_this_machine_only() {
        assert_eq!(fields(&Target::Email(email()), None), [""; 0]);
        for (host, wrong) in
            [("localhost", false), ("127.0.0.1", false), ("::1", false), ("mail.example", true)]
        {
            let target = Target::Email(Email { host: host.to_owned(), tls: MailTls::None, ..email() });
            assert_eq!(fields(&target, None).len(), usize::from(wrong), "{host}");
        }
    }

    #[test]
    fn every_wrong_field_of_a_mail_is_named() {
        let bad = Email {
            host: "mail.example:25".to_owned(),
            port: 0,
            from: "Nobody <a@b>".to_owned(),
            to: vec!["a@b".to_owned(), "a@b\r\nBcc: c@d".to_owned()],
            ..email()
        };
        let expected = ["email.host", "email.port", "email.from", "email.to[1]"];
        assert_eq!(fields(&Target::Email(bad), None), expected);
        assert_eq!(fields(&Target::Email(Email { to: Vec::new(), ..email() }), None), ["email.to"]);
    }

    #[test]
    fn secrets_are_checked_and_never_repeated() {
        let pagerduty = Target::Pagerduty { url: super::super::PAGERDUTY_URL.to_owned() };
        assert_eq!(fields(&pagerduty, Some(&"a1".repeat(16))), [""; 0]);
        for (target, secret, field) in [
            (pagerduty, "hunter2", "pagerduty.routingKey"),
            (Target::Slack, "hooks.example/hunter2", "slack.url"),
            (Target::Email(email()), "hunter2\n", "email.password"),
        ] {
            let errors = problems(&target, Some(secret));
            assert_eq!(errors.len(), 1, "{field}");
            assert_eq!(errors[0].field, field);
            assert!(!errors[0].message.contains("hunter2"), "{errors:?}");
        }
    }
}
