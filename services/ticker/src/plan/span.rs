//! A job's definitions over time: which is in force at an instant, what it asks for then, and where the job is paused.
//!
//! Pure. Invariant: the spans of a job follow each other without a hole and don't overlap, and the last one is open.

use chrono::{DateTime, TimeDelta, Utc};
use model::job::Definition;
use model::policy::MisfirePolicy;
use schedule::{DateSets, Owner, Schedule};
use store::job_cursor::{Cursor, Revision};

/// A definition with its schedule, ready to be asked.
#[derive(Debug)]
pub struct Usable<'a> {
    definition: &'a Definition,
    schedule: Schedule,
    seed: String,
}

impl<'a> Usable<'a> {
    /// Reads a revision of a job, or says why it can't be used: a calendar that `dates` lacks is a reason too.
    pub fn read(cursor: &Cursor, revision: &'a Revision, dates: &DateSets) -> Result<Self, String> {
        let definition = revision.definition.as_ref().map_err(Clone::clone)?;
        let owner = Owner { tenant: cursor.tenant_id, job: cursor.job_id, created_at: cursor.created_at };
        let schedule = Schedule::of_job(definition, owner, dates).map_err(|errors| {
            let texts: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
            texts.join("; ")
        })?;
        Ok(Self { definition, schedule, seed: cursor.job_id.to_string() })
    }

    /// As planning and settling ask it.
    pub fn asked(&self) -> schedule::Definition<'_> {
        schedule::Definition::of(self.definition, &self.schedule, &self.seed)
    }

    /// What becomes of its missed occurrences.
    pub fn policy(&self) -> MisfirePolicy {
        self.definition.misfire.policy
    }

    /// When it is due.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The same, up to the end of its time.
    #[must_use]
    pub fn until(mut self, through: Option<DateTime<Utc>>) -> Self {
        self.schedule = self.schedule.bounded(None, through);
        self
    }
}

/// A revision over the instants to which it applies: after the one, through the other.
#[derive(Debug)]
pub struct Span<'a> {
    /// What is in force.
    pub revision: &'a Revision,
    /// Nothing is due: the job is deleted, or paused by a pause that nobody has ended as an outage.
    pub rests: bool,
    /// The last instant before it; none when it applies to whatever lies before.
    pub after: Option<DateTime<Utc>>,
    /// Its last instant; none when it is in force now.
    pub through: Option<DateTime<Utc>>,
}

impl Span<'_> {
    /// The first instant of it that is not before `at`; none when it is over by then.
    pub fn from(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let from = self.after.map_or(at, |after| at.max(just_after(after)));
        self.through.is_none_or(|through| through >= from).then_some(from)
    }
}

/// The spans of a job's revisions, in order. The first revision that is known applies to whatever lies before it. Where
/// the clock was set back between two changes, the later change counts.
pub fn spans(revisions: &[Revision]) -> Vec<Span<'_>> {
    let mut spans: Vec<Span<'_>> = Vec::with_capacity(revisions.len());
    let mut through = None;
    let mut catches_up = false;
    for (index, revision) in revisions.iter().enumerate().rev() {
        // The whole row of paused revisions before a resumption shares its fate.
        catches_up = revision.catches_up || (revision.paused && catches_up);
        let rests = revision.deleted || (revision.paused && !catches_up);
        let after = (index > 0).then_some(revision.in_force_from);
        spans.push(Span { revision, rests, after, through });
        through = Some(
            through.map_or(revision.in_force_from, |end: DateTime<Utc>| end.min(revision.in_force_from)),
        );
    }
    spans.reverse();
    spans
}

/// The first instant after `at` that the database can tell from it.
pub fn just_after(at: DateTime<Utc>) -> DateTime<Utc> {
    at + TimeDelta::microseconds(1)
}
