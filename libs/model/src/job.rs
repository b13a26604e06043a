//! A job: what its owner wrote, complete with defaults, and nothing that changes by itself.

use crate::alert::life::REPEAT_DEFAULT;
use crate::alert::on::On;
use crate::calendar::Calendars;
use crate::policy::{DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use crate::severity::Severity;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

pub use http::Http;
pub use retry::{Retried, Retry};

mod http;
pub mod retry;

/// Everything that says when a job runs, what runs, and what happens when it does not.
///
/// This is what a `job_revision` stores. Durations are whole milliseconds in the stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// The expression, as written.
    pub schedule: String,
    /// IANA name of the zone in which the expression is read.
    pub timezone: String,
    /// What becomes of a wall-clock time that does not exist.
    pub dst_gap: DstGap,
    /// Which pass of a wall-clock time that exists twice counts.
    pub dst_fold: DstFold,
    /// No occurrence before this counts; it itself does. `@every` counts from here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<DateTime<Utc>>,
    /// No occurrence after this counts; it itself does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_at: Option<DateTime<Utc>>,
    /// Days that are closed to it.
    #[serde(default)]
    pub calendars: Calendars,
    /// What becomes of missed occurrences.
    pub misfire: Misfire,
    /// What becomes of an occurrence that meets an open run of the job.
    pub overlap: OverlapPolicy,
    /// How long an attempt may run, counted from the worker's acceptance.
    #[serde(with = "millis")]
    pub max_runtime: Duration,
    /// What becomes of attempts that fail or are lost.
    pub retry: Retry,
    /// How far starts of different jobs are spread; zero is none.
    #[serde(with = "millis")]
    pub jitter: Duration,
    /// The queue whose workers take the runs.
    pub queue: String,
    /// Smaller is sooner, 0 to 9, among runs of one queue.
    pub priority: i16,
    /// For finding jobs; no meaning to the scheduler.
    pub labels: BTreeMap<String, String>,
    /// Whether and how its silence is noticed.
    pub alert: Alert,
    /// What runs.
    pub run: Work,
}

/// What becomes of occurrences that were not released in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Misfire {
    /// The rule.
    pub policy: MisfirePolicy,
    /// How late an occurrence may be released before it counts as missed.
    #[serde(with = "millis")]
    pub grace: Duration,
    /// The most missed occurrences that `CATCH_UP` runs.
    pub catch_up_limit: u32,
    /// How far back `CATCH_UP` reaches.
    #[serde(with = "millis")]
    pub catch_up_window: Duration,
    /// The most runs of a backlog that are handed out in a second.
    #[serde(default = "defaults::catch_up_per_second")]
    pub catch_up_per_second: u32,
}

/// Whether and how a missing success is noticed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alert {
    /// Counted from the scheduled second; none takes [`Definition::success_within`]'s default.
    #[serde(with = "millis_option")]
    pub success_within: Option<Duration>,
    /// Names of the tenant's channels that are told.
    pub channels: Vec<String>,
    /// The owner's explicit wish not to be watched.
    pub disabled: bool,
    /// What else its owner is told of.
    #[serde(default, skip_serializing_if = "On::is_nothing")]
    pub on: On,
    /// How long after it was told an alert is told again, until somebody acknowledges it; zero is never, none takes
    /// [`crate::alert::life::REPEAT_DEFAULT`].
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis_option")]
    pub repeat: Option<Duration>,
    /// How grave it is when its deadline is missed.
    #[serde(default, skip_serializing_if = "is_critical")]
    pub severity: Severity,
}

impl Alert {
    /// See [`Self::repeat`].
    pub fn repeat(&self) -> Duration {
        self.repeat.unwrap_or(REPEAT_DEFAULT)
    }
}

fn is_critical(severity: &Severity) -> bool {
    *severity == Severity::Critical
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// A process on the agent's machine.
    Exec(Exec),
    /// An HTTP call that the agent makes.
    Http(Http),
    /// A handler that a worker program registered under a name.
    Handler(Handler),
}

/// A process.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exec {
    /// Program and arguments, passed as they are: no shell reads them.
    pub argv: Vec<String>,
    /// Added to the process's environment.
    pub env: BTreeMap<String, String>,
    /// The working directory; empty is the agent's.
    pub working_directory: String,
    /// A line for `/bin/sh -c`, instead of `argv`.
    pub shell: String,
}

/// A handler in a worker program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// The name that the program registered.
    pub name: String,
    /// JSON text for it.
    pub payload: String,
}

/// Defaults of a definition, in one place for the API, the documentation and the tests.
pub mod defaults {
    use std::time::Duration;
    /// See [`super::Misfire::grace`].
    pub const MISFIRE_GRACE: Duration = Duration::from_secs(60);
    /// See [`super::Misfire::catch_up_limit`].
    pub const CATCH_UP_LIMIT: u32 = 1_000;
    /// See [`super::Misfire::catch_up_window`].
    pub const CATCH_UP_WINDOW: Duration = Duration::from_secs(7 * 86_400);
    /// See [`super::Misfire::catch_up_per_second`].
    pub const CATCH_UP_PER_SECOND: u32 = 10;
    pub(super) const fn catch_up_per_second() -> u32 {
        CATCH_UP_PER_SECOND
    }
    /// See [`super::Definition::max_runtime`].
    pub const MAX_RUNTIME: Duration = Duration::from_secs(3_600);
    /// See [`super::Retry::max_attempts`].
    pub const MAX_ATTEMPTS: u16 = 1;
    /// See [`super::Retry::backoff`].
    pub const BACKOFF: Duration = Duration::from_secs(10);
    /// See [`super::Retry::backoff_max`].
    pub const BACKOFF_MAX: Duration = Duration::from_secs(600);
    /// See [`super::Retry::jitter_percent`].
    pub const RETRY_JITTER_PERCENT: u8 = 10;
    pub(super) const fn retry_jitter_percent() -> u8 {
        RETRY_JITTER_PERCENT
    }
    /// See [`super::Retry::max_lost`].
    pub const MAX_LOST: u16 = 3;
    /// See [`super::Http::timeout`].
    pub const HTTP_TIMEOUT: Duration = Duration::from_secs(30);
    /// The queue of a job that names none.
    pub const QUEUE: &str = "default";
    /// The zone of a job that names none.
    pub const TIMEZONE: &str = "UTC";
}

impl Definition {
    /// How long after the scheduled second success is expected: what the owner set, else jitter, grace and every
    /// attempt at full length with its backoff. None when the job is not watched: its owner opted out, or its
    /// misfire policy is `SKIP` and it set no deadline.
    pub fn success_within(&self) -> Option<Duration> {
        if self.alert.disabled {
            return None;
        }
        if self.alert.success_within.is_some() {
            return self.alert.success_within;
        }
        if self.misfire.policy == MisfirePolicy::Skip {
            return None;
        }
        let attempts = u32::from(self.retry.max_attempts);
        let working = (1..=attempts).fold(Duration::ZERO, |sum, attempt| {
            let backoff = if attempt < attempts { self.retry.backoff_after(attempt) } else { Duration::ZERO };
            sum.saturating_add(self.max_runtime).saturating_add(backoff)
        });
        Some(self.jitter.saturating_add(self.misfire.grace).saturating_add(working))
    }

    /// True when runs planned under `self` must be planned anew once `next` is in force: anything differs that
    /// decides when a run starts or what it does. Labels and alerts are not of that kind.
    pub fn replans(&self, next: &Self) -> bool {
        let without = |definition: &Self| {
            let mut definition = definition.clone();
            definition.labels.clear();
            definition.alert = Alert::default();
            definition
        };
        without(self) != without(next)
    }
}

pub(crate) mod millis {
    use serde::{Deserialize, Deserializer, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_millis()).unwrap_or(u64::MAX))
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_millis)
    }
}

pub(crate) mod millis_option {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::time::Duration;

    pub fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|value| u64::try_from(value.as_millis()).unwrap_or(u64::MAX)).serialize(serializer)
    }
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn definition() -> Definition {
        Definition {
            schedule: "0 9 * * 1-5".to_owned(),
            timezone: "Europe/Berlin".to_owned(),
            dst_gap: DstGap::RunAfter,
            dst_fold: DstFold::First,
            starts_at: None,
            ends_at: None,
            calendars: Calendars::default(),
            misfire: Misfire {
                policy: MisfirePolicy::Once,
                grace: defaults::MISFIRE_GRACE,
                catch_up_limit: defaults::CATCH_UP_LIMIT,
                catch_up_window: defaults::CATCH_UP_WINDOW,
                catch_up_per_second: defaults::CATCH_UP_PER_SECOND,
            },
            overlap: OverlapPolicy::Forbid,
            max_runtime: Duration::from_secs(1_800),
            retry: Retry {
                max_attempts: 3,
                backoff: Duration::from_secs(10),
                backoff_max: Duration::from_secs(15),
                ..Retry::default()
            },
            jitter: Duration::ZERO,
            queue: defaults::QUEUE.to_owned(),
            priority: 0,
            labels: BTreeMap::new(),
            alert: Alert::default(),
            run: Work::Handler(Handler { name: "invoice".to_owned(), payload: String::new() }),
        }
    }

    #[test]
    fn the_stored_form_comes_back_as_it_was() {
        let definition = definition();
        let text = serde_json::to_string(&definition).expect("a definition serialises");
        assert_eq!(serde_json::from_str::<Definition>(&text).expect("and comes back"), definition);
    }

    #[test]
    fn what_an_older_release_stored_is_read_with_defaults() {
        let mut stored = serde_json::to_value(definition()).expect("a definition serialises");
        let object = stored.as_object_mut().expect("it is an object");
        object.remove("calendars");
        object["misfire"].as_object_mut().expect("so is this").remove("catch_up_per_second");
        assert_eq!(serde_json::from_value::<Definition>(stored).expect("and is read"), definition());
    }

    #[test]
    fn default_deadline_covers_every_attempt_with_its_backoff() {
        // grace 60 + three attempts of 1,800 + backoff 10 + backoff 15 (20 capped)
        assert_eq!(definition().success_within(), Some(Duration::from_secs(60 + 5_400 + 25)));
    }

    #[test]
    fn jobs_that_skip_misfires_are_watched_only_when_asked() {
        let mut definition = definition();
        definition.misfire.policy = MisfirePolicy::Skip;
        assert_eq!(definition.success_within(), None);
        definition.alert.success_within = Some(Duration::from_secs(5));
        assert_eq!(definition.success_within(), Some(Duration::from_secs(5)));
        definition.alert.disabled = true;
        assert_eq!(definition.success_within(), None);
    }

    #[test]
    fn labels_and_alerts_do_not_replan_but_the_command_does() {
        let old = definition();
        let mut new = old.clone();
        new.labels.insert("team".to_owned(), "billing".to_owned());
        new.alert.channels.push("oncall".to_owned());
        assert!(!old.replans(&new));
        new.run = Work::Handler(Handler { name: "other".to_owned(), payload: String::new() });
        assert!(old.replans(&new));
    }

    #[test]
    fn whatever_decides_when_and_how_runs_start_replans() {
        type Change = fn(&mut Definition);
        let old = definition();
        let each: [(&str, Change); 9] = [
            ("schedule", |new| new.schedule.push_str(",0")),
            ("timezone", |new| "Asia/Kathmandu".clone_into(&mut new.timezone)),
            ("dst_gap", |new| new.dst_gap = DstGap::Skip),
            ("dst_fold", |new| new.dst_fold = DstFold::Both),
            ("jitter", |new| new.jitter += Duration::from_secs(1)),
            ("misfire", |new| new.misfire.policy = MisfirePolicy::CatchUp),
            ("overlap", |new| new.overlap = OverlapPolicy::Allow),
            ("ends_at", |new| new.ends_at = Some(DateTime::UNIX_EPOCH)),
            ("calendars", |new| new.calendars.rule = crate::policy::CalendarRule::NextDay),
        ];
        for (what, change) in each {
            let mut new = old.clone();
            change(&mut new);
            assert!(old.replans(&new), "{what}");
        }
    }
}
