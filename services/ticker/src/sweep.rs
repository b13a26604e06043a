//! What becomes of runs that are planned and were not handed out in time: the same policy as for occurrences that
//! were never planned, in the same moment, under the same lock.
//!
//! Pure. Invariant: of a job's runs at most one runs late, and it is the newest of those that were missed; each other
//! one ends, or joins a backlog. What a pause holds is none of them: it waits for the resumption.

use crate::plan::decide::{Decision, How, Moment};
use crate::plan::span::Usable;
use chrono::{DateTime, Utc};
use model::ids::{Generation, RunKey};
use model::policy::MisfirePolicy;
use model::run::Reason;
use schedule::DateSets;
use store::job_cursor::Cursor;
use store::misfire::Waiting;

/// What becomes of a job's waiting runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Settlement<'a> {
    /// Don't run, and why.
    pub ends: Vec<(&'a Waiting, Reason)>,
    /// Runs late.
    pub late: Option<RunKey>,
    /// Run beside each other, as a backlog, oldest first.
    pub paced: Vec<RunKey>,
    /// Run one after the other, as a backlog, oldest first.
    pub backlog: Vec<RunKey>,
}

/// Settles the waiting runs of a job, given in order: those that are overdue, and the one that runs late already.
/// `decision` is what becomes of the job's occurrences without a run, in the same moment.
pub fn settle<'a>(
    cursor: &Cursor,
    waiting: &[&'a Waiting],
    decision: &Decision,
    moment: &Moment<'_>,
) -> Settlement<'a> {
    let mut settlement = Settlement::default();
    if !decision.settled {
        // Newer ones are still to be decided about; what is waiting is settled together with them.
        return settlement;
    }
    let late = waiting.iter().copied().find(|run| run.late);
    let overdue: Vec<_> = waiting.iter().copied().filter(|run| !run.late).collect();
    let new_late = decision.fires.iter().any(|fire| fire.how == How::Late);
    let mut newer = decision.fires.iter().filter(|fire| matches!(fire.how, How::Late | How::Backlog)).count();
    let late_is_newest = late.is_some_and(|late| overdue.last().is_none_or(|run| run.key < late.key));
    newer += usize::from(late_is_newest);
    // The newest definition first: what it runs is newer than what an older one would.
    for runs in overdue.chunk_by(|a, b| a.generation == b.generation).collect::<Vec<_>>().into_iter().rev() {
        let usable = usable(cursor, runs[0].generation, moment.dates);
        newer += settlement.settle(usable.as_ref(), runs, newer, moment.at);
    }
    settlement.backlog.sort();
    settlement.paced.sort();
    if let Some(late) = late.filter(|_| new_late || settlement.late.is_some()) {
        settlement.ends.push((late, Reason::Superseded));
    }
    settlement
}

fn usable<'a>(cursor: &'a Cursor, generation: Generation, dates: &DateSets) -> Option<Usable<'a>> {
    let revision = cursor.revisions.iter().find(|revision| revision.generation == generation)?;
    Usable::read(cursor, revision, dates).ok()
}

impl<'a> Settlement<'a> {
    /// Settles the runs of one definition; returns how many of them run.
    fn settle(
        &mut self,
        usable: Option<&Usable<'_>>,
        runs: &[&'a Waiting],
        newer: usize,
        at: DateTime<Utc>,
    ) -> usize {
        let Some(usable) = usable else {
            // Nobody knows what its owner wanted: it does not run.
            self.ends.extend(runs.iter().map(|run| (*run, Reason::Missed)));
            return 0;
        };
        let instants: Vec<_> = runs.iter().map(|run| run.key.scheduled_for).collect();
        let settled = usable.asked().settle(&instants, newer, at);
        let reason = match usable.policy() {
            MisfirePolicy::Once => Reason::Superseded,
            MisfirePolicy::Skip | MisfirePolicy::CatchUp => Reason::Missed,
        };
        // In order: first those that are dropped, then those that run.
        let (dropped, run) = runs.split_at(settled.dropped.len());
        self.ends.extend(dropped.iter().map(|run| (*run, reason)));
        if settled.late.is_some() {
            self.late = run.last().map(|run| run.key);
        } else {
            self.backlog.extend(run.iter().filter(|run| run.exclusive).map(|run| run.key));
            self.paced.extend(run.iter().filter(|run| !run.exclusive).map(|run| run.key));
        }
        run.len()
    }
}

#[cfg(test)]
mod tests;
