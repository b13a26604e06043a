//! What the registry decides about definitions, as pure functions: what is wrong with one, which instant comes first,
//! what differs from the stored one.

use crate::references::{Known, Named};
use chrono::{DateTime, TimeDelta, Utc};
use model::calendar::Calendars;
use model::ids::{Generation, JobId, TenantId, instant_text};
use model::job::{Definition, Work};
use model::validate::FieldError;
use rpc::convert::job::Written;
use rpc::v1;
use schedule::{DateSets, Owner, Schedule, SpecField};
use std::time::Duration;
use store::job::Stored;
use store::job_change;

/// The watchdog judges so long after a deadline: what was recorded in the last moment is visible by then.
const JUDGE_MARGIN: Duration = Duration::from_secs(3);

/// A job that a person wrote.
#[derive(Debug, Clone)]
pub struct Given {
    /// What could be read; the calendars that it names have no version yet.
    pub written: Written,
    /// What it names.
    pub named: Named,
    /// Everything that is wrong with it in itself, as the API spells it.
    pub errors: Vec<FieldError>,
}

/// Reads a job that a person wrote, and finds everything that is wrong with it.
pub fn read(job: &v1::Job) -> Given {
    let reading = rpc::convert::job::read(job);
    let mut errors = further_errors(&reading.written);
    errors.extend(reading.errors);
    Given { written: reading.written, named: Named::of(job), errors }
}

impl Given {
    /// What was written, with the present versions of its calendars, to be put in force at `at` as a new job, `owner`'s,
    /// or over the `stored` one.
    ///
    /// # Errors
    /// Everything that is wrong with it, what it names and is not there included.
    pub fn resolved(
        &self,
        known: &Known,
        stored: Option<&Stored>,
        owner: Owner,
        at: DateTime<Utc>,
    ) -> Result<Written, Vec<FieldError>> {
        let mut errors = self.errors.clone();
        errors.extend(known.unknown("", &self.named));
        errors.extend(never_again(&self.written.definition, stored, owner, at));
        let mut written = known.resolve(&self.written);
        errors.extend(keep_secrets(&mut written, stored));
        if errors.is_empty() { Ok(written) } else { Err(errors) }
    }
}

/// Gives secrets that are left empty the values that the stored job has; which stay without one.
pub fn keep_secrets(written: &mut Written, stored: Option<&Stored>) -> Vec<FieldError> {
    let Work::Http(http) = &mut written.definition.run else { return Vec::new() };
    let stored = stored.and_then(|stored| match &stored.definition.run {
        Work::Http(http) => Some(http),
        _ => None,
    });
    let wrong = |name: String| {
        let message =
            format!("{name:?} is secret and empty, and no value of it is kept for this host: give its value");
        FieldError::new("run.http.headers", message)
    };
    http.keep_secrets(stored).into_iter().map(wrong).collect()
}

/// What neither the contract nor the model can judge.
fn further_errors(written: &Written) -> Vec<FieldError> {
    let definition = &written.definition;
    let mut errors = Vec::new();
    if written.name.parse::<uuid::Uuid>().is_ok() {
        let message = format!("{:?} reads as a job's id: use a name that no id looks like", written.name);
        errors.push(FieldError::new("name", message));
    }
    errors.extend(schedule_errors(definition));
    errors.extend(nul(&definition.run));
    errors
}

/// What is wrong with expression and timezone, and whether calendars can close days to them.
fn schedule_errors(definition: &Definition) -> Vec<FieldError> {
    // Neither whose it is nor which dates its calendars have decides whether an expression is sound.
    let owner =
        Owner { tenant: TenantId::DEFAULT, job: JobId(uuid::Uuid::nil()), created_at: DateTime::UNIX_EPOCH };
    let mut empty = DateSets::default();
    for version in definition.calendars.versions() {
        empty.add((owner.tenant, version.clone()), []);
    }
    let wrong = Schedule::of_job(definition, owner, &empty).err().unwrap_or_default();
    let at_field = wrong.into_iter().map(|error| {
        let field = match error.field {
            SpecField::Expression => "schedule",
            SpecField::Timezone => "timezone",
            SpecField::Calendars => "calendars",
        };
        FieldError::new(field, error.message)
    });
    at_field.collect()
}

/// PostgreSQL's JSON has no NUL. `run.exec` is checked by the model, addresses and names are too.
fn nul(work: &Work) -> Option<FieldError> {
    let has = |text: &String| text.contains('\0');
    let field = match work {
        Work::Http(http) if http.headers.iter().any(|(key, value)| has(key) || has(value)) => {
            "run.http.headers"
        }
        Work::Http(http) if has(&http.body) => "run.http.body",
        Work::Handler(handler) if has(&handler.payload) => "run.handler.payload",
        _ => return None,
    };
    Some(FieldError::new(field, "contains a NUL character: leave it out"))
}

/// Whose a stored job's definition is.
pub const fn owner(job: &Stored) -> Owner {
    Owner { tenant: job.tenant, job: job.id, created_at: job.created_at }
}

/// The first instant after `after` of a job's schedule; none when it is exhausted, or can't be used.
pub fn next_fire_at(
    definition: &Definition,
    owner: Owner,
    dates: &DateSets,
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    Schedule::of_job(definition, owner, dates).ok()?.next(after)
}

/// What is wrong with a schedule that names no instant after `at`. Its calendars don't count: they may open days later.
/// A stored job that has run its course stays sound as long as its timing is left as it is.
pub fn never_again(
    definition: &Definition,
    stored: Option<&Stored>,
    owner: Owner,
    at: DateTime<Utc>,
) -> Option<FieldError> {
    if stored.is_some_and(|stored| !retimes(&stored.definition, definition)) {
        return None;
    }
    let every_day = Definition { calendars: Calendars::default(), ..definition.clone() };
    let schedule = Schedule::of_job(&every_day, owner, &DateSets::default()).ok()?;
    if schedule.next(at).is_some() {
        return None;
    }
    let endless = Definition { ends_at: None, ..every_day };
    let ends = next_fire_at(&endless, owner, &DateSets::default(), at).is_some();
    let message = match schedule.previous(at) {
        Some(last) => format!("has no occurrence after now: the last one was {}", instant_text(last)),
        None if ends => "has no occurrence: the first one would come after the end".to_owned(),
        None => "has no occurrence after now, and had none before".to_owned(),
    };
    Some(FieldError::new(if ends { "endsAt" } else { "schedule" }, message))
}

/// When the watchdog looks at an occurrence; none when the job is not watched.
pub fn judge_at(definition: &Definition, occurrence: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let after = definition.success_within()?.saturating_add(JUDGE_MARGIN);
    occurrence.checked_add_signed(TimeDelta::from_std(after).ok()?)
}

/// A job to be stored when its `owner` is created.
pub fn creation<'a>(written: &'a Written, owner: Owner, dates: &DateSets) -> job_change::New<'a> {
    let first = next_fire_at(&written.definition, owner, dates, owner.created_at);
    job_change::New {
        id: owner.job,
        name: &written.name,
        definition: &written.definition,
        first,
        judge_at: first.and_then(|first| judge_at(&written.definition, first)),
    }
}

/// Whose the definition of a job of `tenant` is that is created at `at`.
pub fn new_owner(tenant: TenantId, at: DateTime<Utc>) -> Owner {
    Owner { tenant, job: JobId::random(), created_at: at }
}

/// What putting `written`, whose calendars have their present versions, in force at `at` changes; none when nothing
/// differs.
pub fn change<'a>(
    stored: &Stored,
    written: &'a Written,
    dates: &DateSets,
    at: DateTime<Utc>,
) -> Option<job_change::Change<'a>> {
    if stored.name == written.name && stored.definition == written.definition {
        return None;
    }
    Some(job_change::Change {
        job: stored.id,
        generation: stored.generation.next(),
        name: &written.name,
        definition: &written.definition,
        first: next_fire_at(&written.definition, owner(stored), dates, at),
        replans: stored.definition.replans(&written.definition),
        paused: stored.paused.is_some(),
    })
}

/// What other dates of its calendars change: `renewed` is the definition with their present versions.
pub fn renewal<'a>(
    stored: &'a Stored,
    renewed: &'a Definition,
    dates: &DateSets,
    at: DateTime<Utc>,
) -> job_change::Change<'a> {
    job_change::Change {
        job: stored.id,
        generation: stored.generation.next(),
        name: &stored.name,
        definition: renewed,
        first: next_fire_at(renewed, owner(stored), dates, at),
        replans: true,
        paused: stored.paused.is_some(),
    }
}

/// True when the two name different instants, apart from their calendars.
pub fn retimes(old: &Definition, new: &Definition) -> bool {
    let timing = |definition: &Definition| {
        let Definition { schedule, timezone, dst_gap, dst_fold, starts_at, ends_at, .. } = definition.clone();
        (schedule, timezone, dst_gap, dst_fold, starts_at, ends_at)
    };
    timing(old) != timing(new)
}

/// A stored job as a message, with the next occurrence after it was read; a paused one has none.
pub fn message(job: &Stored, dates: &DateSets) -> v1::Job {
    let next_fire_at = match job.paused {
        Some(_) => None,
        None => next_fire_at(&job.definition, owner(job), dates, job.seen_at),
    };
    let facts = rpc::convert::job::Facts {
        id: job.id,
        name: job.name.clone(),
        generation: job.generation,
        created_at: job.created_at,
        updated_at: job.updated_at,
        next_fire_at,
        broken: job.broken.clone(),
        paused: job.paused.as_ref().map(|paused| (paused.since, paused.reason.clone())),
    };
    rpc::convert::job::write(&job.definition, facts)
}

/// A job that was just stored.
pub fn created(new: &job_change::New<'_>, tenant: TenantId, at: DateTime<Utc>) -> Stored {
    Stored {
        id: new.id,
        tenant,
        generation: Generation::FIRST,
        created_at: at,
        updated_at: at,
        deleted_at: None,
        name: new.name.to_owned(),
        definition: new.definition.clone(),
        broken: None,
        paused: None,
        seen_at: at,
    }
}

#[cfg(test)]
mod tests;
