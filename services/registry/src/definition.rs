//! What the registry decides about definitions, as pure functions: what is wrong with one, which instant comes first,
//! what differs from the stored one.

use chrono::{DateTime, TimeDelta, Utc};
use model::ids::{Generation, JobId};
use model::job::{Definition, Work};
use model::policy::OverlapPolicy;
use model::validate::FieldError;
use rpc::convert::job::{Reading, Written};
use rpc::v1;
use schedule::{Schedule, Spec, SpecField};
use std::time::Duration;
use store::job::Stored;

/// The watchdog judges so long after a deadline: what was recorded in the last moment is visible by then.
const JUDGE_MARGIN: Duration = Duration::from_secs(3);

/// Reads a job that a person wrote, and finds everything that is wrong with it.
///
/// # Errors
/// Every wrong field, as the API spells it.
pub fn read(job: &v1::Job) -> Result<Written, Vec<FieldError>> {
    let reading: Reading = rpc::convert::job::read(job);
    let further = further_errors(&reading.written);
    reading.checked(further)
}

/// What neither the contract nor the model can judge.
fn further_errors(written: &Written) -> Vec<FieldError> {
    let definition = &written.definition;
    let mut errors = Vec::new();
    if written.name.parse::<uuid::Uuid>().is_ok() {
        let message = format!("{:?} reads as a job's id: use a name that no id looks like", written.name);
        errors.push(FieldError::new("name", message));
    }
    // Neither identity nor anchor decides whether an expression is sound.
    if let Err(wrong) = Schedule::parse(&spec(definition, "", DateTime::UNIX_EPOCH)) {
        errors.extend(wrong.into_iter().map(|error| {
            let field = match error.field {
                SpecField::Expression => "schedule",
                SpecField::Timezone => "timezone",
                SpecField::Calendars => "calendars",
            };
            FieldError::new(field, error.message)
        }));
    }
    if matches!(definition.overlap, OverlapPolicy::Queue | OverlapPolicy::Replace) {
        let message = format!("{} is not available yet: use FORBID or ALLOW", definition.overlap);
        errors.push(FieldError::new("overlap", message));
    }
    errors.extend(nul(&definition.run));
    errors
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

fn spec<'a>(definition: &'a Definition, seed: &'a str, created_at: DateTime<Utc>) -> Spec<'a> {
    Spec {
        expression: &definition.schedule,
        timezone: &definition.timezone,
        dst_gap: definition.dst_gap,
        dst_fold: definition.dst_fold,
        seed,
        anchor: created_at,
    }
}

/// The first instant after `after` of a job's schedule; none when it is exhausted, or can't be used.
pub fn next_fire_at(
    definition: &Definition,
    job: JobId,
    created_at: DateTime<Utc>,
    after: DateTime<Utc>,
) -> Option<DateTime<Utc>> {
    Schedule::parse(&spec(definition, &job.to_string(), created_at)).ok()?.next(after)
}

/// When the watchdog looks at an occurrence; none when the job is not watched.
pub fn judge_at(definition: &Definition, occurrence: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let after = definition.success_within()?.saturating_add(JUDGE_MARGIN);
    occurrence.checked_add_signed(TimeDelta::from_std(after).ok()?)
}

/// What writing a definition over a stored one does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Nothing differs; nothing is written.
    Unchanged,
    /// It is put in force.
    Change {
        /// Its number.
        generation: Generation,
        /// The first instant of its schedule after the change.
        first: Option<DateTime<Utc>>,
        /// Whether what is planned is planned anew.
        replans: bool,
    },
}

/// Decides what putting `written` in force at `at` means for the stored job.
pub fn decide(stored: &Stored, written: &Written, at: DateTime<Utc>) -> Decision {
    if stored.name == written.name && stored.definition == written.definition {
        return Decision::Unchanged;
    }
    Decision::Change {
        generation: stored.generation.next(),
        first: next_fire_at(&written.definition, stored.id, stored.created_at, at),
        replans: stored.definition.replans(&written.definition),
    }
}

/// A stored job as a message, with the next occurrence after it was read.
pub fn message(job: &Stored) -> v1::Job {
    let next_fire_at = next_fire_at(&job.definition, job.id, job.created_at, job.seen_at);
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

#[cfg(test)]
mod tests;
