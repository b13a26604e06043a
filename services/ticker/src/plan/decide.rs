//! What becomes of one job's occurrences: from its cursor through the window, by the definitions in force at each.
//!
//! Pure. Invariant: each occurrence from the cursor up to [`Decision::next`] is exactly one of `fires` or of the
//! counts of `misfires`, unless its job rests then: it is deleted, or paused by a pause that is no outage. Runs that are
//! planned already are settled elsewhere ([`crate::sweep`]), in the same moment.

use super::span::{Usable, just_after, spans};
use crate::cause::Evidence;
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::Generation;
use model::policy::MisfirePolicy;
use model::run::{MisfireCause, MisfireOutcome};
use schedule::{DateSets, Missed, Plan};
use std::time::Duration;
use store::job_cursor::{Cursor, Revision};
use store::misfire::Misfire;

/// The moment of a batch, and how far it goes.
#[derive(Debug, Clone, Copy)]
pub struct Moment<'a> {
    /// The cell's clock, read after the cursors were locked.
    pub at: DateTime<Utc>,
    /// The ledger takes nothing before this.
    pub floor: DateTime<Utc>,
    /// Occurrences are planned through this.
    pub horizon: DateTime<Utc>,
    /// How long before its instant an occurrence is planned at the latest, when all is well.
    pub lookahead: Duration,
    /// Occurrences that are decided about at once.
    pub occurrences_max: usize,
    /// Who was at work when.
    pub evidence: Evidence<'a>,
    /// The calendars that the definitions name.
    pub dates: &'a DateSets,
}

/// What becomes of a job's occurrences.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// Become runs, in order of kind and time.
    pub fires: Vec<Fire>,
    /// Don't run and have no row.
    pub misfires: Vec<Misfire>,
    /// The first instant that is not decided; none when there is no more occurrence.
    pub next: Option<DateTime<Utc>>,
    /// Every missed occurrence is decided: which of them run is known.
    pub settled: bool,
    /// False when the batch was cut off: more follows.
    pub complete: bool,
    /// The present definition can't be used, and why.
    pub broken: Option<String>,
    /// Past definitions that can't be used: nobody knows what they asked for.
    pub unusable: Vec<(Generation, String)>,
    /// How many occurrences were decided.
    pub occurrences: usize,
}

/// An occurrence that becomes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fire {
    /// The occurrence.
    pub scheduled_for: DateTime<Utc>,
    /// Plus jitter.
    pub due_at: DateTime<Utc>,
    /// How it runs.
    pub how: How,
    /// The definition that it executes.
    pub generation: Generation,
}

/// How an occurrence runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// When it is due, or missed after this.
    InTime(DateTime<Utc>),
    /// Late: the latest one that was missed.
    Late,
    /// As one of a backlog.
    Backlog,
}

/// Decides about a job's occurrences from its cursor on.
pub fn decide(cursor: &Cursor, moment: &Moment<'_>) -> Decision {
    let mut walk =
        Walk { cursor, moment, decision: Decision { settled: true, complete: true, ..Decision::default() } };
    let Some(mut at) = cursor.next_fire_at else { return walk.decision };
    if cursor.broken {
        walk.decision.next = Some(at);
        return walk.decision;
    }
    for span in spans(&cursor.revisions) {
        let Some(from) = span.from(at) else { continue };
        match Usable::read(cursor, span.revision, moment.dates) {
            _ if span.rests => {}
            Ok(usable) => {
                if !walk.span(&usable.until(span.through), span.revision, from) {
                    return walk.decision;
                }
            }
            Err(problem) if span.through.is_some() => {
                walk.decision.unusable.push((span.revision.generation, problem));
            }
            Err(problem) => {
                walk.decision.broken = Some(problem);
                walk.decision.next = Some(from);
                return walk.decision;
            }
        }
        let Some(through) = span.through else { return walk.decision };
        at = just_after(through);
        walk.decision.next = None;
    }
    walk.decision
}

/// Walking a job's spans.
struct Walk<'a> {
    cursor: &'a Cursor,
    moment: &'a Moment<'a>,
    decision: Decision,
}

impl Walk<'_> {
    /// Decides about one span's occurrences from `from` on; false when the batch is full.
    fn span(&mut self, usable: &Usable<'_>, revision: &Revision, from: DateTime<Utc>) -> bool {
        let mut definition = usable.asked();
        if self.deleted() {
            definition.misfire = MisfirePolicy::Skip; // what a deleted job missed is counted, and never runs
        }
        let known = Known { since: revision.in_force_from, paused: revision.paused };
        let from = match self.below_floor(&definition, from) {
            Ok(from) => from,
            Err(cut_at) => return self.cut(Some(cut_at), false),
        };
        if self.left() == 0 {
            return self.cut(Some(from), false);
        }
        let Plan { mut planned, late, catch_up, missed, next_cursor, reached_now } =
            schedule::plan(&definition, from, self.moment.at, self.moment.horizon, self.left());
        let settled = reached_now || late.is_some() || !catch_up.is_empty() || !planned.is_empty();
        for missed in missed {
            self.record(&definition, known, missed);
        }
        let fire =
            |scheduled_for, due_at, how| Fire { scheduled_for, due_at, how, generation: revision.generation };
        if let Some(late) = late {
            self.supersede_late();
            self.fire(fire(late.scheduled_for, late.due_at, How::Late));
        }
        for scheduled_for in catch_up {
            self.fire(fire(scheduled_for, definition.due_at(scheduled_for), How::Backlog));
        }
        if self.deleted()
            && let (Some(first), Some(last)) = (planned.first(), planned.last())
        {
            let count = u64::try_from(planned.len()).unwrap_or(u64::MAX);
            let missed = Missed { first: first.scheduled_for, last: last.scheduled_for, count };
            self.record(&definition, known, missed);
            planned.clear();
        }
        for on_time in planned {
            let start_by = on_time.start_by.unwrap_or(on_time.due_at);
            self.fire(fire(on_time.scheduled_for, on_time.due_at, How::InTime(start_by)));
        }
        if !reached_now {
            return self.cut(next_cursor, settled);
        }
        self.decision.next = next_cursor;
        true
    }

    fn deleted(&self) -> bool {
        self.cursor.revisions.last().is_some_and(|revision| revision.deleted)
    }

    fn left(&self) -> usize {
        self.moment.occurrences_max.saturating_sub(self.decision.occurrences)
    }

    fn cut(&mut self, next: Option<DateTime<Utc>>, settled: bool) -> bool {
        self.decision.next = next;
        self.decision.settled = settled;
        self.decision.complete = false;
        false
    }

    fn fire(&mut self, fire: Fire) {
        self.decision.occurrences += 1;
        self.decision.fires.push(fire);
    }

    /// Counts what the ledger no longer takes; the instant to plan from, or the one at which the batch was cut off.
    fn below_floor(
        &mut self,
        definition: &schedule::Definition<'_>,
        from: DateTime<Utc>,
    ) -> Result<DateTime<Utc>, DateTime<Utc>> {
        let floor = self.moment.floor;
        if from >= floor {
            return Ok(from);
        }
        let mut next = definition.schedule.first_from(from);
        let mut below: Option<Missed> = None;
        while let Some(at) = next.filter(|at| *at < floor) {
            if self.left() == 0 {
                self.push(
                    below,
                    MisfireCause::BeyondRetention,
                    definition.misfire,
                    MisfireOutcome::BeyondRetention,
                );
                return Err(at);
            }
            let counted = below.get_or_insert(Missed { first: at, last: at, count: 0 });
            counted.last = at;
            counted.count += 1;
            self.decision.occurrences += 1;
            next = definition.schedule.next(at);
        }
        self.push(below, MisfireCause::BeyondRetention, definition.misfire, MisfireOutcome::BeyondRetention);
        Ok(floor)
    }

    /// Records what is missed and does not run, apart by cause.
    fn record(&mut self, definition: &schedule::Definition<'_>, known: Known, missed: Missed) {
        self.decision.occurrences += usize::try_from(missed.count).unwrap_or(usize::MAX);
        let outcome = outcome(definition.misfire);
        if known.paused {
            self.push(Some(missed), MisfireCause::Paused, definition.misfire, outcome);
            return;
        }
        let window = |at| self.window(definition, known.since, at);
        let ((from, first_through), (last_from, through)) = (window(missed.first), window(missed.last));
        let evidence = self.moment.evidence;
        let (first, last) = (evidence.cause(from, first_through), evidence.cause(last_from, through));
        if first == last && evidence.is_even(from, through) {
            self.push(Some(missed), first, definition.misfire, outcome);
            return;
        }
        let mut run: Option<(Missed, MisfireCause)> = None;
        for at in definition.schedule.between(missed.first - TimeDelta::seconds(1), missed.last) {
            let (from, through) = self.window(definition, known.since, at);
            let cause = evidence.cause(from, through);
            match &mut run {
                Some((counted, same)) if *same == cause => {
                    counted.last = at;
                    counted.count += 1;
                }
                _ => {
                    let one = Missed { first: at, last: at, count: 1 };
                    if let Some((counted, cause)) = run.replace((one, cause)) {
                        self.push(Some(counted), cause, definition.misfire, outcome);
                    }
                }
            }
        }
        if let Some((counted, cause)) = run {
            self.push(Some(counted), cause, definition.misfire, outcome);
        }
    }

    /// From when through when an occurrence could have been planned in time.
    fn window(
        &self,
        definition: &schedule::Definition<'_>,
        known_since: DateTime<Utc>,
        at: DateTime<Utc>,
    ) -> (DateTime<Utc>, DateTime<Utc>) {
        ((at - self.moment.lookahead).max(known_since), definition.due_at(at) + definition.grace)
    }

    /// A newer definition's late occurrence takes the place of an older one's.
    fn supersede_late(&mut self) {
        let late = self.decision.fires.iter().position(|fire| fire.how == How::Late);
        let Some(at) = late.map(|index| self.decision.fires.remove(index).scheduled_for) else { return };
        let cause = self.moment.evidence.cause(at - self.moment.lookahead, self.moment.at);
        let one = Missed { first: at, last: at, count: 1 };
        self.push(Some(one), cause, MisfirePolicy::Once, MisfireOutcome::Superseded);
    }

    fn push(
        &mut self,
        missed: Option<Missed>,
        cause: MisfireCause,
        policy: MisfirePolicy,
        outcome: MisfireOutcome,
    ) {
        let Some(Missed { first, last, count }) = missed else { return };
        let job_id = self.cursor.job_id;
        self.decision.misfires.push(Misfire { job_id, first, last, count, cause, policy, outcome });
    }
}

/// Since when a definition was known, and whether its job was paused by then.
#[derive(Debug, Clone, Copy)]
struct Known {
    since: DateTime<Utc>,
    paused: bool,
}

fn outcome(policy: MisfirePolicy) -> MisfireOutcome {
    match policy {
        MisfirePolicy::Skip => MisfireOutcome::Skipped,
        MisfirePolicy::Once => MisfireOutcome::Superseded,
        MisfirePolicy::CatchUp => MisfireOutcome::BeyondCatchUp,
    }
}

#[cfg(test)]
mod faults;
#[cfg(test)]
mod herd;
#[cfg(test)]
mod pauses;
#[cfg(test)]
mod tests;
