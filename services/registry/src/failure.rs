//! Why a call fails, what of it is worth another try, and what the caller is told.

use model::ids::Generation;
use model::validate::FieldError;
use rpc::status::{self, Exceeded};
use rpc::transcode::{NAMED_MAX, more_are_wrong};
use std::future::Future;
use std::time::Duration;
use store::{Retry, StoreError};
use tonic::Status;
use uuid::Uuid;

/// Tries of a transaction that met a deadlock, or that another one overtook.
const TRIES_MAX: u32 = 8;
/// Tries of a transaction that had to wait too long for others' locks: each has waited for seconds.
const BUSY_TRIES_MAX: u32 = 4;
/// The longest pause after the first try; doubled after each further one, so that a burst of changes has passed.
const PAUSE: Duration = Duration::from_millis(40);
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(200);

/// When somebody may try again who was crowded out: a turn takes a second or two.
const CROWDED_WAIT: Duration = Duration::from_secs(2);

/// Wrong fields that an answer names: no fewer than those that are not read.
const ERRORS_MAX: usize = NAMED_MAX;
/// Bytes of all of them together in the headers in which gRPC carries them: clients on gRPC's C core, such as Python's, drop
/// a call whose headers have more than 8 KiB.
const HEADER_BYTES_MAX: usize = 7_000;
/// Exceeded limits that an answer names: each three times, as field errors are.
const EXCEEDED_MAX: usize = 8;
/// Bytes that an answer repeats of one text that the caller sent.
const SHOWN_BYTES_MAX: usize = 600;

/// Why a call fails.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Fields are wrong: all of them are named.
    #[error("{} fields are wrong", .0.len())]
    Invalid(Vec<FieldError>),
    /// The tenant has no such thing.
    #[error("there is no {kind} {name:?}")]
    NotFound {
        /// `job`, `channel`, `run`.
        kind: &'static str,
        /// As the caller named it.
        name: String,
    },
    /// The tenant has one of that name.
    #[error("there is a {kind} {name:?} already")]
    Exists {
        /// `job`, `channel`.
        kind: &'static str,
        /// As the caller named it.
        name: String,
    },
    /// The job was changed since the caller read it.
    #[error("job {name:?} has generation {stored}, not {expected}")]
    ChangedSince {
        /// The job.
        name: String,
        /// What the caller read.
        expected: Generation,
        /// What is stored.
        stored: Generation,
    },
    /// The channel is named by jobs or check-ins.
    #[error("channel {channel:?} is named by jobs or check-ins")]
    InUse {
        /// The channel.
        channel: String,
        /// The first of these, jobs before check-ins: which of the two, and its name.
        users: Vec<(String, String)>,
        /// There are more of them.
        more: bool,
    },
    /// The calendar was changed since the caller read it.
    #[error("calendar {name:?} has version {stored}, not {expected}")]
    CalendarChangedSince {
        /// The calendar.
        name: String,
        /// What the caller read.
        expected: i64,
        /// What is stored.
        stored: i64,
    },
    /// The check-in was changed since the caller read it.
    #[error("check-in {name:?} has generation {stored}, not {expected}")]
    CheckInChangedSince {
        /// The check-in.
        name: String,
        /// What the caller read.
        expected: i64,
        /// What is stored.
        stored: i64,
    },
    /// The calendar is named by jobs.
    #[error("calendar {calendar:?} is named by jobs")]
    CalendarInUse {
        /// The calendar.
        calendar: String,
        /// The first of these jobs, by name.
        jobs: Vec<String>,
        /// There are more of them.
        more: bool,
    },
    /// The tenant was changed since the caller read it.
    #[error("tenant {name:?} has generation {stored}, not {expected}")]
    TenantChangedSince {
        /// The tenant.
        name: String,
        /// What the caller read.
        expected: i64,
        /// What is stored.
        stored: i64,
    },
    /// The caller's tenant has no room for it.
    #[error("{} limits are exceeded", .0.len())]
    OverLimit(Vec<Exceeded>),
    /// Only who looks after all tenants may do it.
    #[error("operators only")]
    OperatorsOnly,
    /// It is not possible in the state in which things are.
    #[error("{0}")]
    Refused(String),
    /// The idempotency key was used for a call that asked for something else.
    #[error("idempotency key {key:?} was used for another call")]
    KeyUsed {
        /// The key.
        key: String,
    },
    /// Somebody else changed what was looked at before the locks were held: look again.
    #[error("overtaken by another change")]
    Overtaken,
    /// A test of a channel that no watchdog has sent.
    #[error("no watchdog has sent the test within {seconds} s")]
    NoWatchdog {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Too many wait for what keeps a processor busy for seconds.
    #[error("too many wait for the coming load or for dry runs")]
    Crowded,
    /// A fault of ours: what was being done broke off.
    #[error("{0} broke off")]
    Broken(&'static str),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Failure {
    /// How often a transaction that fails so is tried.
    fn tries_max(&self) -> u32 {
        match self {
            Self::Overtaken => TRIES_MAX,
            Self::Store(error) if error.is_busy() => BUSY_TRIES_MAX,
            Self::Store(error) if error.retry() == Retry::AtOnce => TRIES_MAX,
            _ => 1,
        }
    }
}

/// The one place where a failure becomes an answer.
impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Invalid(errors) => status::invalid(bounded(errors, 0)),
            Failure::NotFound { kind, name } => status::not_found(kind, &shown(name)),
            Failure::Exists { kind, name } => status::already_exists(kind, &name),
            Failure::ChangedSince { name, expected, stored } => {
                status::changed_since(&name, expected.0, stored.0)
            }
            Failure::InUse { channel, users, more } => {
                let users: Vec<_> = users.iter().map(|(kind, name)| format!("{kind} {name:?}")).collect();
                let more = if more { " and more" } else { "" };
                Self::failed_precondition(format!(
                    "channel {channel:?} is named by {}{more}: remove it from their channels first",
                    users.join(", ")
                ))
            }
            Failure::CheckInChangedSince { name, expected, stored } => Self::aborted(format!(
                "check-in {name:?} has generation {stored}, not {expected}: read it again and repeat the change"
            )),
            Failure::CalendarChangedSince { name, expected, stored } => Self::aborted(format!(
                "calendar {name:?} has version {stored}, not {expected}: read it again and repeat the change"
            )),
            Failure::CalendarInUse { calendar, jobs, more } => {
                let jobs: Vec<_> = jobs.iter().map(|job| format!("{job:?}")).collect();
                let more = if more { " and more" } else { "" };
                Self::failed_precondition(format!(
                    "calendar {calendar:?} is named by the jobs {}{more}: remove it from their calendars first",
                    jobs.join(", ")
                ))
            }
            Failure::TenantChangedSince { name, expected, stored } => Self::aborted(format!(
                "tenant {name:?} has generation {stored}, not {expected}: read it again and repeat the change"
            )),
            Failure::OverLimit(mut exceeded) => {
                exceeded.sort_by_key(|one| one.field.is_some()); // what no other value would mend comes first
                exceeded.truncate(EXCEEDED_MAX);
                status::over_limit(exceeded)
            }
            Failure::OperatorsOnly => status::operators_only(),
            Failure::Refused(reason) => Self::failed_precondition(reason),
            Failure::KeyUsed { key } => Self::failed_precondition(format!(
                "idempotency key {key:?} was used for a call that asked for something else: use a new key for each"
            )),
            Failure::Overtaken => {
                Self::unavailable("other changes of the same jobs were faster each time: try again")
            }
            Failure::Store(error) if error.is_busy() => {
                tracing::warn!(%error, tries = BUSY_TRIES_MAX, "Refused a change: others hold what it needs");
                Self::unavailable(
                    "others are changing or planning the same things, and were not done in time: try again",
                )
            }
            Failure::NoWatchdog { .. } => {
                Self::unavailable(format!("{failure}: look whether one runs, then try again"))
            }
            Failure::Crowded => status::try_later(&failure.to_string(), CROWDED_WAIT),
            Failure::Broken(doing) => status::internal(doing, &failure),
            Failure::Store(error) => match error.retry() {
                Retry::AtOnce | Retry::Later => status::unavailable("PostgreSQL", &error),
                Retry::Split | Retry::Never => status::internal("talking to PostgreSQL", &error),
            },
        }
    }
}

/// The first errors, one at least, however long; and how many there are beside them and the `more` that were only counted.
pub fn bounded(errors: Vec<FieldError>, more: usize) -> Vec<FieldError> {
    let found = errors.len() + more;
    let mut bytes = 0;
    let shortened = errors.into_iter().map(|error| FieldError::new(shown(error.field), shown(error.message)));
    let mut told: Vec<_> = shortened
        .take(ERRORS_MAX)
        .enumerate()
        .take_while(|(index, error)| {
            bytes += header_bytes(error);
            *index == 0 || bytes <= HEADER_BYTES_MAX
        })
        .map(|(_, error)| error)
        .collect();
    let more = found - told.len();
    if more > 0 {
        told.push(FieldError::new("", more_are_wrong(more)));
    }
    told
}

/// What an error takes in gRPC's headers at most: percent-encoded in the message, and twice in the details, in base64.
fn header_bytes(FieldError { field, message }: &FieldError) -> usize {
    let text = field.len() + message.len() + "; : ".len();
    let plain = field.bytes().chain(message.bytes()).filter(u8::is_ascii_alphanumeric).count();
    let tags = 12;
    plain + 3 * (text - plain) + (2 * text + tags) * 4 / 3
}

/// A text with its end left out when it is long.
fn shown(text: String) -> String {
    if text.len() <= SHOWN_BYTES_MAX {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(SHOWN_BYTES_MAX)])
}

/// One wrong field.
pub fn wrong(field: impl Into<String>, message: impl Into<String>) -> Failure {
    Failure::Invalid(vec![FieldError::new(field, message)])
}

/// Does `work`, a whole transaction, again while it meets a deadlock or is overtaken, each time after a longer pause.
///
/// # Errors
/// What the last try met.
pub async fn retrying<T, F>(work: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    retrying_after(work, tokio::time::sleep).await
}

/// As [`retrying`]; `pause` waits.
async fn retrying_after<T, F, P>(
    mut work: impl FnMut() -> F,
    mut pause: impl FnMut(Duration) -> P,
) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
    P: Future<Output = ()>,
{
    let mut tries = 1;
    loop {
        match work().await {
            Err(failure) if tries < failure.tries_max() => {
                let wait = pause_after(tries, Uuid::new_v4().as_u128());
                tracing::debug!(error = %failure, tries, pause_ms = wait.as_millis(), "Doing a transaction again");
                pause(wait).await;
                tries += 1;
            }
            other => return other,
        }
    }
}

/// How long to wait after so many tries: between half of the longest pause and all of it, by `random`, so that those who
/// were in each other's way are so no more.
fn pause_after(tries: u32, random: u128) -> Duration {
    let doubled = 2_u32.saturating_pow(tries.saturating_sub(1));
    let longest = PAUSE.saturating_mul(doubled).min(PAUSE_MAX).as_micros();
    let micros = longest / 2 + random % (longest / 2 + 1);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn an_overtaken_transaction_is_done_again_and_not_for_ever() {
        let (tries, waited) = (Cell::new(0), Cell::new(Vec::new()));
        let fail_before = |success| {
            tries.set(tries.get() + 1);
            std::future::ready(if tries.get() < success { Err(Failure::Overtaken) } else { Ok(tries.get()) })
        };
        let pause = |wait: Duration| {
            waited.set([waited.take(), vec![wait]].concat());
            std::future::ready(())
        };
        assert!(matches!(retrying_after(|| fail_before(3), pause).await, Ok(3)));
        assert_eq!(waited.take().len(), 2);
        tries.set(0);
        let outcome = retrying_after(|| fail_before(u32::MAX), pause).await;
        assert!(matches!(outcome, Err(Failure::Overtaken)));
        assert_eq!(tries.get(), TRIES_MAX);
        let waited = waited.take();
        assert_eq!(waited.len(), TRIES_MAX as usize - 1);
        assert!(waited.iter().all(|wait| (PAUSE / 2..=PAUSE_MAX).contains(wait)), "{waited:?}");
    }

    #[test]
    fn pauses_grow_and_differ_and_have_an_end() {
        let of = |tries| [0, u128::MAX, 77_777_777].map(|random| pause_after(tries, random).as_millis());
        for (tries, shortest, longest) in
            [(1, 20, 40), (2, 40, 80), (3, 80, 160), (4, 100, 200), (u32::MAX, 100, 200)]
        {
            let pauses = of(tries);
            assert!(pauses.iter().all(|pause| (shortest..=longest).contains(pause)), "{tries}: {pauses:?}");
            assert!(pauses.iter().any(|pause| *pause != pauses[0]), "{tries}: {pauses:?}");
        }
    }

    #[test]
    fn thousands_of_errors_are_counted_and_not_listed() {
        let errors = vec![FieldError::new("jobs[0].schedule", "is odd"); 1_000];
        let told = rpc::status::field_errors(&Failure::Invalid(errors).into());
        assert_eq!(told.len(), ERRORS_MAX + 1);
        assert!(told[ERRORS_MAX].message.starts_with("950 more"), "{:?}", told[ERRORS_MAX]);
    }

    #[test]
    fn errors_fit_into_headers_whatever_the_caller_sent() {
        let long = "ß".repeat(100_000);
        for text in [long.as_str(), "🕐".repeat(100_000).as_str(), "\"name\" is odd", " "] {
            for count in [1, 50] {
                let errors = vec![FieldError::new(text, text); count];
                let status = Status::from(Failure::Invalid(errors));
                let headers = status.clone().into_http::<()>().into_parts().0.headers;
                // As HTTP/2 counts them.
                let size: usize =
                    headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
                assert!(size < 8_000, "{count} of {text:.9}: {size}");
                assert!(!rpc::status::field_errors(&status).is_empty());
            }
        }
        let absent = Status::from(Failure::NotFound { kind: "job", name: long });
        assert!(absent.message().len() < 1_000);
    }

    #[tokio::test]
    async fn a_wrong_field_is_wrong_the_first_time() {
        let tries = Cell::new(0);
        let outcome = retrying(|| async {
            tries.set(tries.get() + 1);
            Err::<(), _>(wrong("schedule", "is odd"))
        });
        assert!(matches!(outcome.await, Err(Failure::Invalid(_))));
        assert_eq!(tries.get(), 1);
    }
}
