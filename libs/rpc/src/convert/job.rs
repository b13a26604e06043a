//! A job: `Job` in the contract; a name, a [`Definition`] and some facts in the model.

use super::{time, work};
use crate::v1;
use chrono::{DateTime, Utc};
use model::calendar::{CalendarVersion, Calendars};
use model::ids::{Generation, JobId};
use model::job::{Definition, Handler, Misfire, Retried, Retry, Work, defaults, retry};
use model::policy::{CalendarRule, DstFold, DstGap, MisfirePolicy, OverlapPolicy};
use model::validate::{self, FieldError};
use prost_types::Duration as ProtoDuration;
use std::collections::BTreeSet;
use std::time::Duration;

mod alert;

/// What a person wrote, complete with defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The job's name.
    pub name: String,
    /// What it is to be.
    pub definition: Definition,
    /// The generation that the writer changes, when it says so.
    pub generation: Option<Generation>,
}

/// The outcome of reading a job. Wrong fields hold a default here, so that the rest can still be checked.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Reading {
    /// What could be read.
    pub written: Written,
    /// Everything that is wrong, but for the expression and the timezone, which this crate can't judge.
    pub errors: Vec<FieldError>,
}

impl Reading {
    /// What was written, when neither reading it nor `further` checks found anything wrong.
    ///
    /// # Errors
    /// All errors, in the order of the contract's fields as far as that is known.
    pub fn checked(mut self, further: Vec<FieldError>) -> Result<Written, Vec<FieldError>> {
        self.errors.splice(0..0, further);
        if self.errors.is_empty() { Ok(self.written) } else { Err(self.errors) }
    }
}

/// Reads a job and checks all of it but its expression and timezone. Output-only fields are ignored.
pub fn read(job: &v1::Job) -> Reading {
    let mut errors: Vec<FieldError> = validate::name("name", &job.name).into_iter().collect();
    let definition = definition(job, &mut errors);
    let unreadable: Vec<String> = errors.iter().map(|error| error.field.clone()).collect();
    // What stands in for an unreadable field may be wrong in its place, or clash with a neighbour (backoff with the
    // stand-in of backoffMax): that is no second error.
    let stands_in = |field: &str| unreadable.iter().any(|unreadable| unreadable.starts_with(field));
    errors.extend(validate::definition(&definition).into_iter().filter(|error| !stands_in(&error.field)));
    if job.generation < 0 {
        errors.push(FieldError::new("generation", "is negative: use the one that was read, or none"));
    }
    let generation = (job.generation > 0).then_some(Generation(job.generation));
    Reading { written: Written { name: job.name.clone(), definition, generation }, errors }
}

fn definition(job: &v1::Job, errors: &mut Vec<FieldError>) -> Definition {
    let mut fields = Fields { errors };
    Definition {
        schedule: job.schedule.clone(),
        timezone: or(&job.timezone, defaults::TIMEZONE),
        dst_gap: fields
            .named("dstGap", job.dst_gap(), job.dst_gap, DstGap::RunAfter, |rule| rule.as_str_name()),
        dst_fold: fields
            .named("dstFold", job.dst_fold(), job.dst_fold, DstFold::First, |rule| rule.as_str_name()),
        starts_at: fields.instant("startsAt", job.starts_at.as_ref()),
        ends_at: fields.instant("endsAt", job.ends_at.as_ref()),
        calendars: calendars(job.calendars.as_ref().unwrap_or(&v1::JobCalendars::default()), &mut fields),
        misfire: misfire(job.misfire.as_ref().unwrap_or(&v1::Misfire::default()), &mut fields),
        overlap: fields.named("overlap", job.overlap(), job.overlap, OverlapPolicy::Forbid, |policy| {
            policy.as_str_name()
        }),
        max_runtime: fields.duration("maxRuntime", job.max_runtime.as_ref(), defaults::MAX_RUNTIME),
        retry: retry(job.retry.as_ref().unwrap_or(&v1::Retry::default()), &mut fields),
        jitter: fields.duration("jitter", job.jitter.as_ref(), Duration::ZERO),
        queue: or(&job.queue, defaults::QUEUE),
        priority: fields.number("priority", job.priority, 0),
        labels: job.labels.clone().into_iter().collect(),
        alert: alert::read(job.alert.as_ref().unwrap_or(&v1::JobAlert::default()), &mut fields),
        run: fields
            .keep(work::read("run", job.run.as_ref()))
            .unwrap_or_else(|| Work::Handler(Handler { name: "missing".to_owned(), payload: String::new() })),
    }
}

/// Calendars by name; which version of them applies is known when they are stored.
fn calendars(calendars: &v1::JobCalendars, fields: &mut Fields<'_>) -> Calendars {
    let named = |names: &[String]| {
        names.iter().map(|name| CalendarVersion { name: name.clone(), version: 0 }).collect()
    };
    Calendars {
        exclude: named(&calendars.exclude),
        only: named(&calendars.only),
        rule: fields.named(
            "calendars.rule",
            calendars.rule(),
            calendars.rule,
            CalendarRule::default(),
            |rule| rule.as_str_name(),
        ),
    }
}

fn misfire(misfire: &v1::Misfire, fields: &mut Fields<'_>) -> Misfire {
    Misfire {
        policy: fields.named(
            "misfire.policy",
            misfire.policy(),
            misfire.policy,
            MisfirePolicy::Once,
            |policy| policy.as_str_name(),
        ),
        grace: fields.duration("misfire.grace", misfire.grace.as_ref(), defaults::MISFIRE_GRACE),
        catch_up_limit: fields.count(
            "misfire.catchUpLimit",
            misfire.catch_up_limit,
            defaults::CATCH_UP_LIMIT,
        ),
        catch_up_window: fields.duration(
            "misfire.catchUpWindow",
            misfire.catch_up_window.as_ref(),
            defaults::CATCH_UP_WINDOW,
        ),
        catch_up_per_second: fields.count(
            "misfire.catchUpPerSecond",
            misfire.catch_up_per_second,
            defaults::CATCH_UP_PER_SECOND,
        ),
    }
}

fn retry(retry: &v1::Retry, fields: &mut Fields<'_>) -> Retry {
    let backoff_max = fields.duration("retry.backoffMax", retry.backoff_max.as_ref(), defaults::BACKOFF_MAX);
    Retry {
        max_attempts: fields.count("retry.maxAttempts", retry.max_attempts, defaults::MAX_ATTEMPTS),
        // Who sets only a short longest wait means it for every wait.
        backoff: fields.duration("retry.backoff", retry.backoff.as_ref(), defaults::BACKOFF.min(backoff_max)),
        backoff_max,
        jitter_percent: retry.jitter_percent.map_or(defaults::RETRY_JITTER_PERCENT, |percent| {
            fields.number("retry.jitterPercent", percent, defaults::RETRY_JITTER_PERCENT)
        }),
        max_lost: fields.count("retry.maxLost", retry.max_lost, defaults::MAX_LOST),
        outcomes: outcomes(&retry.outcomes, fields),
        final_statuses: (0..)
            .zip(&retry.final_statuses)
            .map(|(index, status)| fields.number(&format!("retry.finalStatuses[{index}]"), *status, 1))
            .collect(),
    }
}

fn outcomes(numbers: &[i32], fields: &mut Fields<'_>) -> BTreeSet<Retried> {
    if numbers.is_empty() {
        return retry::every();
    }
    let named = |(index, number): (usize, &i32)| {
        let outcome = v1::retry::Outcome::try_from(*number).ok();
        let read = outcome.and_then(|outcome| outcome.as_str_name().parse().ok());
        fields.keep(read.ok_or_else(|| {
            let names: Vec<_> = Retried::ALL.iter().map(|outcome| outcome.as_str()).collect();
            FieldError::new(format!("retry.outcomes[{index}]"), format!("use {}", names.join(", ")))
        }))
    };
    numbers.iter().enumerate().filter_map(named).collect()
}

fn or(value: &str, default: &str) -> String {
    if value.is_empty() { default.to_owned() } else { value.to_owned() }
}

/// Reads fields and remembers what is wrong with them.
struct Fields<'a> {
    errors: &'a mut Vec<FieldError>,
}

impl Fields<'_> {
    fn keep<T>(&mut self, read: Result<T, FieldError>) -> Option<T> {
        read.map_err(|error| self.errors.push(error)).ok()
    }

    /// An enum of the contract as the model's enum of the same names; unset is `default`. `parsed` is what prost
    /// makes of `number`: unset when it is unknown.
    fn named<P: TryFrom<i32>, M: std::str::FromStr + Copy>(
        &mut self,
        field: &str,
        parsed: P,
        number: i32,
        default: M,
        name: impl Fn(&P) -> &'static str,
    ) -> M {
        if number == 0 {
            return default;
        }
        let known = P::try_from(number).is_ok();
        let value = if known { name(&parsed).parse().ok() } else { None };
        value.unwrap_or_else(|| {
            self.errors.push(FieldError::new(field, format!("{number} is none of its values: use a name")));
            default
        })
    }

    fn instant(&mut self, field: &str, value: Option<&prost_types::Timestamp>) -> Option<DateTime<Utc>> {
        value.and_then(|value| self.keep(time::instant(field, Some(value))))
    }

    fn duration(&mut self, field: &str, value: Option<&ProtoDuration>, default: Duration) -> Duration {
        value.and_then(|value| self.keep(time::duration_of(field, value))).unwrap_or(default)
    }

    /// A number whose zero means unset.
    fn count<T: TryFrom<i32>>(&mut self, field: &str, value: i32, default: T) -> T {
        if value == 0 { default } else { self.number(field, value, default) }
    }

    fn number<T: TryFrom<i32>>(&mut self, field: &str, value: i32, default: T) -> T {
        T::try_from(value).unwrap_or_else(|_| {
            let problem = if value < 0 { "is negative" } else { "is too large" };
            self.errors.push(FieldError::new(field, format!("{value} {problem}")));
            default
        })
    }
}

/// What is known of a stored job beside its definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// Its identity.
    pub id: JobId,
    /// Its name.
    pub name: String,
    /// Which definition this is.
    pub generation: Generation,
    /// When it was stored first.
    pub created_at: DateTime<Utc>,
    /// When this definition was stored.
    pub updated_at: DateTime<Utc>,
    /// The next occurrence, if there is one.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// Why it can't be planned, if it can't.
    pub broken: Option<String>,
    /// Since when it is paused, and why, if it is.
    pub paused: Option<(DateTime<Utc>, String)>,
}

/// A stored job as a message.
pub fn write(definition: &Definition, facts: Facts) -> v1::Job {
    v1::Job {
        id: facts.id.to_string(),
        name: facts.name,
        schedule: definition.schedule.clone(),
        timezone: definition.timezone.clone(),
        dst_gap: number(v1::dst_gap::Rule::from_str_name(definition.dst_gap.as_str())),
        dst_fold: number(v1::dst_fold::Rule::from_str_name(definition.dst_fold.as_str())),
        misfire: Some(v1::Misfire {
            policy: number(v1::misfire::Policy::from_str_name(definition.misfire.policy.as_str())),
            grace: Some(time::duration(definition.misfire.grace)),
            catch_up_limit: i32::try_from(definition.misfire.catch_up_limit).unwrap_or(i32::MAX),
            catch_up_window: Some(time::duration(definition.misfire.catch_up_window)),
            catch_up_per_second: i32::try_from(definition.misfire.catch_up_per_second).unwrap_or(i32::MAX),
        }),
        overlap: number(v1::overlap::Policy::from_str_name(definition.overlap.as_str())),
        max_runtime: Some(time::duration(definition.max_runtime)),
        retry: Some(v1::Retry {
            max_attempts: definition.retry.max_attempts.into(),
            backoff: Some(time::duration(definition.retry.backoff)),
            backoff_max: Some(time::duration(definition.retry.backoff_max)),
            max_lost: definition.retry.max_lost.into(),
            jitter_percent: Some(definition.retry.jitter_percent.into()),
            outcomes: outcomes_of(&definition.retry),
            final_statuses: definition.retry.final_statuses.iter().map(|status| i32::from(*status)).collect(),
        }),
        jitter: Some(time::duration(definition.jitter)),
        queue: definition.queue.clone(),
        priority: definition.priority.into(),
        labels: definition.labels.clone().into_iter().collect(),
        alert: Some(alert::write(&definition.alert)),
        run: Some(work::shown(&definition.run)),
        generation: facts.generation.0,
        create_time: Some(time::timestamp(facts.created_at)),
        update_time: Some(time::timestamp(facts.updated_at)),
        next_fire_time: facts.next_fire_at.map(time::timestamp),
        broken: facts.broken.unwrap_or_default(),
        starts_at: definition.starts_at.map(time::timestamp),
        ends_at: definition.ends_at.map(time::timestamp),
        calendars: (!definition.calendars.is_empty()).then(|| written_calendars(&definition.calendars)),
        paused: facts.paused.is_some(),
        pause_time: facts.paused.as_ref().map(|(since, _)| time::timestamp(*since)),
        pause_reason: facts.paused.map(|(_, reason)| reason).unwrap_or_default(),
    }
}

fn outcomes_of(retry: &Retry) -> Vec<i32> {
    let number_of = |outcome: &Retried| number(v1::retry::Outcome::from_str_name(outcome.as_str()));
    retry.outcomes.iter().map(number_of).collect()
}

fn written_calendars(calendars: &Calendars) -> v1::JobCalendars {
    let names = |versions: &[CalendarVersion]| versions.iter().map(|version| version.name.clone()).collect();
    v1::JobCalendars {
        exclude: names(&calendars.exclude),
        only: names(&calendars.only),
        rule: number(v1::job_calendars::Rule::from_str_name(calendars.rule.as_str())),
    }
}

/// The number of an enum's value; unset for a name that the contract lacks, which a test excludes.
fn number<P: Into<i32>>(value: Option<P>) -> i32 {
    value.map_or(0, Into::into)
}

#[cfg(test)]
mod tests;
