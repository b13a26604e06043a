//! What a backfill asks for, and which occurrences that is. Pure.

use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use model::ids::instant_text;
use model::job::Definition;
use model::validate::FieldError;
use rpc::convert::time;
use rpc::v1;
use schedule::Schedule;
use std::collections::BTreeSet;
use std::time::Duration;

/// Occurrences of one call.
const OCCURRENCES_MAX: usize = 10_000;
/// Days of one call: each needs a partition.
const DAYS_MAX: usize = 400;
/// The fastest pace.
const PACE_MIN: Duration = Duration::from_millis(1);
/// The slowest pace.
const PACE_MAX: Duration = Duration::from_secs(3_600);

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The first instant that counts.
    pub from: DateTime<Utc>,
    /// The last instant that counts.
    pub to: DateTime<Utc>,
    /// Nothing is to be changed.
    pub dry_run: bool,
    pace: Option<Duration>,
}

impl Asked {
    /// Reads a request.
    ///
    /// # Errors
    /// Every wrong field.
    pub fn read(request: &v1::BackfillJobRequest) -> Result<Self, Vec<FieldError>> {
        let from = time::instant("from", request.from.as_ref());
        let to = time::instant("to", request.to.as_ref());
        let pace = request.pace.as_ref().map(pace).transpose();
        match (from, to, pace) {
            (Ok(from), Ok(to), Ok(pace)) if from <= to => {
                Ok(Self { from, to, dry_run: request.dry_run, pace })
            }
            (Ok(from), Ok(_), Ok(_)) => {
                let message = format!("is before `from`: use {} or later", instant_text(from));
                Err(vec![FieldError::new("to", message)])
            }
            (from, to, pace) => Err([from.err(), to.err(), pace.err()].into_iter().flatten().collect()),
        }
    }

    /// Whether the range lies in the ledger and in the past, at `now`.
    ///
    /// # Errors
    /// Every wrong field.
    pub fn check(&self, now: DateTime<Utc>, floor: DateTime<Utc>) -> Result<(), Vec<FieldError>> {
        let mut errors = Vec::new();
        if self.from < floor {
            let floor = instant_text(floor);
            let message = format!("is before the ledger begins: use {floor} or later");
            errors.push(FieldError::new("from", message));
        }
        if self.to > now {
            let message = "is in the future: use now or earlier, what comes is planned anyway";
            errors.push(FieldError::new("to", message));
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }

    /// The occurrences of the range that come before `before`, where the planner goes on.
    ///
    /// # Errors
    /// When there are too many.
    pub fn occurrences(
        &self,
        schedule: &Schedule,
        before: Option<DateTime<Utc>>,
    ) -> Result<Vec<DateTime<Utc>>, FieldError> {
        let just_before = self.from - TimeDelta::nanoseconds(1);
        let decided = |at: &DateTime<Utc>| before.is_none_or(|before| *at < before);
        let found = schedule.between(just_before, self.to).take_while(decided);
        let mut found: Vec<_> = found.take(OCCURRENCES_MAX + 1).collect();
        let reached: BTreeSet<_> = days(&found).into_iter().take(DAYS_MAX).collect();
        let within = found.iter().take_while(|at| reached.contains(&at.date_naive())).count();
        let (most, limit) = if within < OCCURRENCES_MAX {
            (within, format!("{DAYS_MAX} days with occurrences"))
        } else {
            (OCCURRENCES_MAX, format!("{OCCURRENCES_MAX} occurrences"))
        };
        if found.len() <= most {
            return Ok(found);
        }
        found.truncate(most);
        let last = found.last().map_or_else(String::new, |last| instant_text(*last));
        let message = format!("the range has more than {limit}: use a narrower one, for example to {last}");
        Err(FieldError::new("to", message))
    }

    /// Between the starts of two runs.
    pub fn interval(&self, definition: &Definition) -> Duration {
        let own = Duration::from_secs(1) / definition.misfire.catch_up_per_second.max(1);
        self.pace.unwrap_or(own)
    }
}

fn pace(value: &prost_types::Duration) -> Result<Duration, FieldError> {
    let pace = time::duration_of("pace", value)?;
    if !(PACE_MIN..=PACE_MAX).contains(&pace) {
        return Err(FieldError::new("pace", "is out of range: use 0.001s to 3600s, for example \"2s\""));
    }
    Ok(pace)
}

/// The days of instants, in UTC as the ledger's are.
pub fn days(instants: &[DateTime<Utc>]) -> BTreeSet<NaiveDate> {
    instants.iter().map(DateTime::date_naive).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::policy::{DstFold, DstGap};
    use schedule::Spec;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("an instant")
    }

    fn schedule(expression: &str) -> Schedule {
        let anchor = DateTime::UNIX_EPOCH;
        let (dst_gap, dst_fold) = (DstGap::RunAfter, DstFold::First);
        Schedule::parse(&Spec { expression, timezone: "UTC", dst_gap, dst_fold, seed: "", anchor })
            .expect("a sound schedule")
    }

    fn asked(from: &str, to: &str) -> Asked {
        Asked { from: at(from), to: at(to), dry_run: false, pace: None }
    }

    #[test]
    fn both_ends_of_the_range_count() {
        let hours = schedule("0 * * * *");
        let range = asked("2026-11-01T03:00:00Z", "2026-11-01T06:00:00Z");
        let found = range.occurrences(&hours, None).expect("few");
        assert_eq!((found.len(), found[0], found[3]), (4, range.from, range.to));
        let inside = asked("2026-11-01T03:00:00.000001Z", "2026-11-01T05:59:59.999999Z");
        assert_eq!(inside.occurrences(&hours, None).expect("few").len(), 2);
    }

    #[test]
    fn what_the_planner_decides_is_left_to_it() {
        let range = asked("2026-11-01T03:00:00Z", "2026-11-01T06:00:00Z");
        let found = range.occurrences(&schedule("0 * * * *"), Some(at("2026-11-01T05:00:00Z")));
        assert_eq!(found.expect("few"), [at("2026-11-01T03:00:00Z"), at("2026-11-01T04:00:00Z")]);
    }

    #[test]
    fn too_many_occurrences_are_refused_with_a_range_that_is_not() {
        let every_second = schedule("* * * * * *");
        let range = asked("2026-11-01T00:00:00Z", "2026-11-01T06:00:00Z");
        let error = range.occurrences(&every_second, None).expect_err("21,601");
        assert_eq!(error.field, "to");
        assert!(error.message.contains("10000 occurrences"), "{}", error.message);
        assert!(error.message.ends_with("to 2026-11-01T02:46:39Z"), "{}", error.message);
        let narrower = asked("2026-11-01T00:00:00Z", "2026-11-01T02:46:39Z");
        assert_eq!(narrower.occurrences(&every_second, None).expect("as many as may be").len(), 10_000);
    }

    #[test]
    fn too_many_days_are_refused_with_a_range_that_is_not() {
        let daily = schedule("@daily");
        let error =
            asked("2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z").occurrences(&daily, None).expect_err("732");
        assert!(error.message.contains("400 days"), "{}", error.message);
        assert!(error.message.ends_with("to 2025-02-03T00:00:00Z"), "{}", error.message);
        let narrower = asked("2024-01-01T00:00:00Z", "2025-02-03T00:00:00Z");
        assert_eq!(narrower.occurrences(&daily, None).expect("as many as may be").len(), 400);
    }

    #[test]
    fn every_wrong_field_is_named() {
        let request = v1::BackfillJobRequest {
            pace: Some(prost_types::Duration { seconds: 3_601, nanos: 0 }),
            ..v1::BackfillJobRequest::default()
        };
        let errors = Asked::read(&request).expect_err("all of them");
        let fields: Vec<_> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(fields, ["from", "to", "pace"]);
        for (nanos, sound) in [(999_999, false), (1_000_000, true)] {
            assert_eq!(pace(&prost_types::Duration { seconds: 0, nanos }).is_ok(), sound, "{nanos} ns");
        }
        let early = asked("2026-11-01T00:00:00Z", "2026-11-03T00:00:00Z");
        let errors = early.check(at("2026-11-02T00:00:00Z"), at("2026-11-01T00:00:01Z")).expect_err("both");
        assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), ["from", "to"]);
    }
}
