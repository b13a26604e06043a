//! What an instant is, decided from what is recorded.

use chrono::{DateTime, Utc};
use model::job::Definition;
use schedule::{DateSets, Explanation, Owner, Schedule};
use store::job::Stored;
use store::why::{Found, Missed, Record, Revision};

/// What is known of an instant.
#[derive(Debug)]
pub struct Answer<'a> {
    /// What it is.
    pub finding: Finding<'a>,
    /// The revision that says so; none before the job's creation.
    pub revision: Option<&'a Revision>,
    /// The schedule in force then; none without a job, or when the definition can't be used.
    pub schedule: Option<Schedule>,
}

/// What an instant is.
#[derive(Debug)]
pub enum Finding<'a> {
    /// There is a run.
    Run(&'a Found),
    /// The job was not created yet.
    NotYet,
    /// The job was deleted.
    Deleted,
    /// The definition in force can't be used, and why.
    Unusable(String),
    /// The schedule names another instant.
    Not(Explanation),
    /// An occurrence that was missed and got no run.
    Missed(&'a Missed),
    /// An occurrence while the job was or is paused.
    Paused {
        /// What began the pause.
        begun: &'a Revision,
        /// What ended it, if it has ended.
        ended: Option<&'a Revision>,
    },
    /// An occurrence that gets its run, or is counted as missed, later.
    ToBePlanned {
        /// Jitter included.
        due_at: DateTime<Utc>,
        /// It should have been planned.
        overdue: bool,
    },
    /// An occurrence from before the ledger's beginning.
    TooOld,
    /// An occurrence from before what the tenant sees.
    NotShown,
    /// An occurrence of which nothing is recorded.
    Nothing,
}

/// Decides what the instant `at` of a job is. `dates` are those of the definition in force.
pub fn find<'a>(job: &Stored, record: &'a Record, dates: &DateSets, at: DateTime<Utc>) -> Answer<'a> {
    let in_force = record.in_force.and_then(|generation| record.revision(generation));
    let owner = Owner { tenant: job.tenant, job: job.id, created_at: job.created_at };
    let usable = in_force.map(|revision| usable(revision, owner, dates));
    let (schedule, problem) = match usable {
        Some(Ok((_, ref schedule))) => (Some(schedule.clone()), None),
        Some(Err(ref problem)) => (None, Some(problem.clone())),
        None => (None, None),
    };
    let answer = |finding| Answer { finding, revision: in_force, schedule: schedule.clone() };
    if let Some(found) = &record.run {
        let revision = record.revision(found.run.generation);
        return Answer { revision: revision.or(in_force), ..answer(Finding::Run(found)) };
    }
    let Some(revision) = in_force else { return answer(Finding::NotYet) };
    if revision.action == "DELETED" {
        return answer(Finding::Deleted);
    }
    let Some(Ok((definition, schedule))) = &usable else {
        return answer(Finding::Unusable(problem.unwrap_or_default()));
    };
    let explanation = schedule.explain(at);
    if !explanation.is_occurrence() {
        return answer(Finding::Not(explanation));
    }
    if let Some(missed) = &record.missed {
        return answer(Finding::Missed(missed));
    }
    if revision.paused
        && let Some(pause) = pause(record, revision)
    {
        return answer(pause);
    }
    if record.next_fire_at.is_some_and(|next| next <= at) {
        let due_at = schedule::Definition::of(definition, schedule, &job.id.to_string()).due_at(at);
        return answer(Finding::ToBePlanned { due_at, overdue: at <= record.now });
    }
    answer(if at < record.floor { Finding::TooOld } else { Finding::Nothing })
}

fn usable<'a>(
    revision: &'a Revision,
    owner: Owner,
    dates: &DateSets,
) -> Result<(&'a Definition, Schedule), String> {
    let definition = revision.definition.as_ref().map_err(Clone::clone)?;
    let schedule = Schedule::of_job(definition, owner, dates).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        texts.join("; ")
    })?;
    Ok((definition, schedule))
}

/// The pause in which a revision is in force; none when it counts as an outage.
fn pause<'a>(record: &'a Record, within: &'a Revision) -> Option<Finding<'a>> {
    let ended =
        record.revisions.iter().find(|revision| revision.generation > within.generation && !revision.paused);
    if ended.is_some_and(|ended| ended.catches_up) {
        return None;
    }
    let mut so_far =
        record.revisions.iter().rev().filter(|revision| revision.generation <= within.generation);
    let begun = so_far.find(|revision| revision.action == "PAUSED").unwrap_or(within);
    Some(Finding::Paused { begun, ended })
}

#[cfg(test)]
mod tests;
