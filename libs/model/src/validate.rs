//! What a definition may contain, checked whole: every wrong field is named at once, with what is wrong and what
//! would be right. The expression and the timezone are checked by the `schedule` crate.

use crate::alert::on::{FAILURES_MAX, On};
use crate::ids::instant_text;
use crate::job::{Definition, Work};
use std::time::Duration;

/// One thing wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The path as the API spells it: `retry.maxAttempts`.
    pub field: String,
    /// What is wrong and what would be right.
    pub message: String,
}

impl FieldError {
    /// An error at `field`.
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into() }
    }
}

/// Limits of a definition.
pub mod limits {
    use std::time::Duration;
    /// Bytes of a job's, queue's or channel's name.
    pub const NAME_BYTES: usize = 63;
    /// A grace shorter than this would turn a slow second into missed occurrences.
    pub const GRACE_MIN: Duration = Duration::from_secs(10);
    /// The longest duration that any field takes: 30 days.
    pub const DURATION_MAX: Duration = Duration::from_secs(30 * 86_400);
    /// Occurrences that one backlog may run.
    pub const CATCH_UP_MAX: u32 = 10_000;
    /// Runs of one job's backlog in a second.
    pub const CATCH_UP_PER_SECOND_MAX: u32 = 1_000;
    /// Calendars that a job names.
    pub const CALENDARS: usize = 8;
    /// Dates of a calendar.
    pub const CALENDAR_DATES: usize = 10_000;
    /// Attempts, and losses.
    pub const ATTEMPTS_MAX: u16 = 100;
    /// Labels of a job.
    pub const LABELS: usize = 32;
    /// Channels of a job.
    pub const CHANNELS: usize = 16;
    /// Statuses that a call expects, and statuses that are final.
    pub const STATUSES: usize = 32;
    /// Bytes of what runs, in the stored form.
    pub const WORK_BYTES: usize = 65_536;
}

/// Checks a name: 1 to 63 of `a-z 0-9 . _ -`, beginning and ending with a letter or digit.
pub fn name(field: &str, value: &str) -> Option<FieldError> {
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '_' | '-');
    let problem = if value.is_empty() {
        "is missing".to_owned()
    } else if value.len() > limits::NAME_BYTES {
        format!("has {} bytes", value.len())
    } else if let Some(bad) = value.chars().find(|c| !inner(*c)) {
        format!("{value:?} contains {bad:?}")
    } else if !edge(value.chars().next()) || !edge(value.chars().last()) {
        format!("{value:?} begins or ends with a sign")
    } else {
        return None;
    };
    let rule = "use 1 to 63 of a-z, 0-9, '.', '_', '-', beginning and ending with a letter or digit";
    Some(FieldError::new(field, format!("{problem}: {rule}")))
}

/// Checks everything of a definition but its expression and timezone.
pub fn definition(definition: &Definition) -> Vec<FieldError> {
    let mut errors = Vec::new();
    bounds(definition, &mut errors);
    calendars(definition, &mut errors);
    misfire(definition, &mut errors);
    retry(definition, &mut errors);
    at_most("jitter", definition.jitter, &mut errors);
    between("maxRuntime", definition.max_runtime, Duration::from_secs(1), &mut errors);
    errors.extend(name("queue", &definition.queue));
    if !(0..=9).contains(&definition.priority) {
        errors
            .push(FieldError::new("priority", format!("{}: use 0 (first) to 9 (last)", definition.priority)));
    }
    labels(definition, &mut errors);
    alert(definition, &mut errors);
    work(&definition.run, &mut errors);
    errors
}

fn bounds(definition: &Definition, errors: &mut Vec<FieldError>) {
    if let (Some(starts_at), Some(ends_at)) = (definition.starts_at, definition.ends_at)
        && ends_at < starts_at
    {
        let message = format!("{} is before startsAt, {}", instant_text(ends_at), instant_text(starts_at));
        errors.push(FieldError::new("endsAt", message));
    }
}

fn calendars(definition: &Definition, errors: &mut Vec<FieldError>) {
    let calendars = &definition.calendars;
    let named = calendars.versions().count();
    if named > limits::CALENDARS {
        let message = format!("{named} calendars: use at most {}", limits::CALENDARS);
        errors.push(FieldError::new("calendars", message));
    }
    for (list, versions) in [("exclude", &calendars.exclude), ("only", &calendars.only)] {
        for (index, calendar) in versions.iter().enumerate() {
            errors.extend(name(&format!("calendars.{list}[{index}]"), &calendar.name));
        }
    }
    if calendars.is_empty() && !calendars.rule.is_skip() {
        let message = format!("{} has no calendar to follow: name one in exclude or only", calendars.rule);
        errors.push(FieldError::new("calendars.rule", message));
    }
}

fn misfire(definition: &Definition, errors: &mut Vec<FieldError>) {
    let misfire = &definition.misfire;
    between("misfire.grace", misfire.grace, limits::GRACE_MIN, errors);
    at_most("misfire.catchUpWindow", misfire.catch_up_window, errors);
    if !(1..=limits::CATCH_UP_MAX).contains(&misfire.catch_up_limit) {
        let message = format!("{}: use 1 to {}", misfire.catch_up_limit, limits::CATCH_UP_MAX);
        errors.push(FieldError::new("misfire.catchUpLimit", message));
    }
    if !(1..=limits::CATCH_UP_PER_SECOND_MAX).contains(&misfire.catch_up_per_second) {
        let message =
            format!("{}: use 1 to {}", misfire.catch_up_per_second, limits::CATCH_UP_PER_SECOND_MAX);
        errors.push(FieldError::new("misfire.catchUpPerSecond", message));
    }
}

fn retry(definition: &Definition, errors: &mut Vec<FieldError>) {
    let retry = &definition.retry;
    for (field, value) in [("retry.maxAttempts", retry.max_attempts), ("retry.maxLost", retry.max_lost)] {
        if !(1..=limits::ATTEMPTS_MAX).contains(&value) {
            errors.push(FieldError::new(field, format!("{value}: use 1 to {}", limits::ATTEMPTS_MAX)));
        }
    }
    at_most("retry.backoff", retry.backoff, errors);
    at_most("retry.backoffMax", retry.backoff_max, errors);
    if retry.backoff > retry.backoff_max {
        let message = format!("{:?} is longer than retry.backoffMax, {:?}", retry.backoff, retry.backoff_max);
        errors.push(FieldError::new("retry.backoff", message));
    }
    if retry.jitter_percent > 100 {
        let message = format!("{}: use 0 (none) to 100", retry.jitter_percent);
        errors.push(FieldError::new("retry.jitterPercent", message));
    }
    let statuses = &retry.final_statuses;
    if statuses.len() > limits::STATUSES || statuses.iter().any(|status| !(1..600).contains(status)) {
        let message = format!(
            "use at most {} statuses, 1 to 255 of a process or 100 to 599 of an HTTP answer",
            limits::STATUSES
        );
        errors.push(FieldError::new("retry.finalStatuses", message));
    }
}

fn labels(definition: &Definition, errors: &mut Vec<FieldError>) {
    if definition.labels.len() > limits::LABELS {
        let message = format!("{} labels: use at most {}", definition.labels.len(), limits::LABELS);
        errors.push(FieldError::new("labels", message));
    }
    for (key, value) in &definition.labels {
        errors.extend(name(&format!("labels.{key}"), key));
        if value.len() > limits::NAME_BYTES || value.chars().any(char::is_control) {
            let message = format!("value {value:?}: use at most {} printable bytes", limits::NAME_BYTES);
            errors.push(FieldError::new(format!("labels.{key}"), message));
        }
    }
}

fn alert(definition: &Definition, errors: &mut Vec<FieldError>) {
    if let Some(within) = definition.alert.success_within {
        between("alert.successWithin", within, Duration::from_secs(1), errors);
    }
    on(&definition.alert.on, definition.max_runtime, errors);
    if let Some(repeat) = definition.alert.repeat.filter(|repeat| !repeat.is_zero()) {
        between("alert.repeat", repeat, Duration::from_secs(60), errors);
    }
    if definition.alert.channels.len() > limits::CHANNELS {
        let message =
            format!("{} channels: use at most {}", definition.alert.channels.len(), limits::CHANNELS);
        errors.push(FieldError::new("alert.channels", message));
    }
    for (index, channel) in definition.alert.channels.iter().enumerate() {
        errors.extend(name(&format!("alert.channels[{index}]"), channel));
    }
}

fn on(on: &On, max_runtime: Duration, errors: &mut Vec<FieldError>) {
    if let Some(failures) = on.failures_in_row.filter(|failures| !(2..=FAILURES_MAX).contains(failures)) {
        let message = format!("{failures}: use 2 to {FAILURES_MAX}, or alert.on.failed for each failure");
        errors.push(FieldError::new("alert.on.failuresInRow", message));
    }
    if let Some(over) = on.runtime_over {
        between("alert.on.runtimeOver", over, Duration::from_secs(1), errors);
        if over >= max_runtime {
            let message = format!(
                "{} s: use less than maxRuntime, {} s, at which the attempt is ended",
                over.as_secs(),
                max_runtime.as_secs()
            );
            errors.push(FieldError::new("alert.on.runtimeOver", message));
        }
    }
}

fn work(work: &Work, errors: &mut Vec<FieldError>) {
    match work {
        Work::Exec(exec) => {
            match (exec.argv.is_empty(), exec.shell.is_empty()) {
                (true, true) => errors.push(FieldError::new(
                    "run.exec.argv",
                    "is missing: give the program and its arguments, or a line in run.exec.shell",
                )),
                (false, false) => {
                    errors.push(FieldError::new("run.exec.shell", "use either argv or shell, not both"));
                }
                _ => {}
            }
            if exec.argv.first().is_some_and(String::is_empty) {
                errors.push(FieldError::new("run.exec.argv[0]", "is empty: name the program"));
            }
            let texts = exec.argv.iter().chain([&exec.shell, &exec.working_directory]);
            if texts.chain(exec.env.iter().flat_map(|(k, v)| [k, v])).any(|text| text.contains('\0')) {
                errors.push(FieldError::new("run.exec", "contains a NUL character: no process can take one"));
            }
            for key in exec.env.keys().filter(|key| key.is_empty() || key.contains('=')) {
                errors.push(FieldError::new(
                    "run.exec.env",
                    format!("{key:?}: a name has no '=' and is not empty"),
                ));
            }
            for key in exec.env.keys().filter(|key| key.starts_with("ESCAPEMENT_")) {
                let message = format!("{key:?}: names beginning with ESCAPEMENT_ are set by the agent");
                errors.push(FieldError::new("run.exec.env", message));
            }
        }
        Work::Http(http) => {
            if !matches!(http.method.as_str(), "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE") {
                let message = format!("{:?}: use GET, HEAD, POST, PUT, PATCH or DELETE", http.method);
                errors.push(FieldError::new("run.http.method", message));
            }
            if let Some(message) = url_problem(&http.url) {
                errors.push(FieldError::new("run.http.url", message));
            }
            for (name, value) in &http.headers {
                if let Some(message) = header_problem(name, value) {
                    errors.push(FieldError::new("run.http.headers", format!("{name:?}: {message}")));
                }
            }
            for (index, name) in http.secret_headers.iter().enumerate() {
                if !http.headers.keys().any(|header| header.eq_ignore_ascii_case(name)) {
                    let message = format!("{name:?} is none of run.http.headers: name one of them");
                    errors.push(FieldError::new(format!("run.http.secretHeaders[{index}]"), message));
                }
            }
            between("run.http.timeout", http.timeout, Duration::from_millis(1), errors);
            let statuses = &http.expected_status;
            if statuses.len() > limits::STATUSES || statuses.iter().any(|status| !(200..600).contains(status))
            {
                let message = format!("use at most {} statuses, each 200 to 599", limits::STATUSES);
                errors.push(FieldError::new("run.http.expectedStatus", message));
            }
        }
        Work::Handler(handler) => errors.extend(name("run.handler.name", &handler.name)),
    }
    let bytes = serde_json::to_vec(work).map_or(usize::MAX, |text| text.len());
    if bytes > limits::WORK_BYTES {
        let message = format!("has {bytes} bytes: use at most {}", limits::WORK_BYTES);
        errors.push(FieldError::new("run", message));
    }
}

/// What is wrong with a header of a call, if anything. A name is a token as in RFC 9110, section 5.6.2; what frames
/// the message or says who the run is belongs to the agent.
fn header_problem(name: &str, value: &str) -> Option<&'static str> {
    const FRAMING: [&str; 9] = [
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let lower = name.to_ascii_lowercase();
    if name.is_empty() || !name.chars().all(token) {
        Some("use letters, digits and '-' in a header's name")
    } else if FRAMING.contains(&lower.as_str()) {
        Some("is set by the agent, which frames the message")
    } else if lower.starts_with("escapement-") || lower == "traceparent" {
        Some("is set by the agent, and says who the run is")
    } else if value.chars().any(|c| c != '\t' && c.is_control()) {
        Some("its value contains a line break or another control character")
    } else {
        None
    }
}

/// What is wrong with an address that Escapement is to call, if anything; where it leads is checked when called.
pub fn url_problem(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    match host {
        None => Some(format!("{url:?}: use an address beginning with http:// or https://")),
        Some("") => Some(format!("{url:?}: the host is missing")),
        Some(host) if host.contains('@') => {
            Some("contains a user or password: put them into headers".to_owned())
        }
        Some(_) if url.chars().any(|c| c.is_whitespace() || c.is_control()) => {
            Some(format!("{url:?}: contains white space; encode it as %20"))
        }
        Some(host) => crate::channel::address_problem(host).map(|problem| format!("{url:?}: {problem}")),
    }
}

fn between(field: &str, value: Duration, least: Duration, errors: &mut Vec<FieldError>) {
    if value < least {
        let given = if value.is_zero() { "0s".to_owned() } else { format!("{value:?}") };
        errors.push(FieldError::new(field, format!("{given}: use at least {least:?}")));
    }
    at_most(field, value, errors);
}

fn at_most(field: &str, value: Duration, errors: &mut Vec<FieldError>) {
    if value > limits::DURATION_MAX {
        let days = limits::DURATION_MAX.as_secs() / 86_400;
        errors.push(FieldError::new(field, format!("{} s: use at most {days} days", value.as_secs())));
    }
}

#[cfg(test)]
mod tests;
