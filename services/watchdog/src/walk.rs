//! What should have succeeded: a job's occurrences from its cursor on, by the definitions in force at each.
//!
//! Pure. Invariant: each occurrence of a watched definition is, over all walks of a job's cursors, exactly once
//! expected or withdrawn, in order, and none before its judgement is due. What did happen is not looked at here.
//!
//! Time in which a job is paused is not watched, even if it is caught up later: nobody waits for it then. And whoever
//! deletes or pauses a job, or stops its watching, takes back what was expected of it until then: an occurrence is
//! withdrawn when that is in force at its deadline. A pause that is over by then withdraws nothing.

use chrono::{DateTime, Duration, TimeDelta, Utc};
use model::job::Definition;
use schedule::{DateSets, Owner, Schedule};
use store::watch_cursor::{Advance, Cursor, Rest, Revision};

/// Judged this long after the deadline, so that a success which was reported in time has been committed.
pub const SETTLE: Duration = Duration::seconds(3);

/// No valid definition has a longer deadline (jitter, grace, and a hundred attempts with their backoffs, at 30 days
/// each); instants stay in range.
const WITHIN_MAX: Duration = Duration::days(7_320);

/// How long a definition that can't be used is left alone before it is looked at again.
const BROKEN_AGAIN: Duration = Duration::minutes(10);

/// An occurrence whose judgement is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The scheduled second.
    pub occurrence: DateTime<Utc>,
    /// By when it should have succeeded.
    pub deadline: DateTime<Utc>,
}

/// The smallest step of an instant in the database.
const STEP: TimeDelta = TimeDelta::microseconds(1);

/// What a walk came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Walk {
    /// To be judged now, in order.
    pub expected: Vec<Expected>,
    /// How the cursor moves; none for a rest.
    pub advance: Option<Advance>,
    /// Rests to store or move on.
    pub rests: Vec<Rest>,
    /// The rest that was walked is judged to its end.
    pub closed: bool,
    /// Definitions that can't be used: since when in force, and why.
    pub broken: Vec<(DateTime<Utc>, String)>,
}

/// A definition over the time in which it is in force.
struct Span<'a> {
    revision: &'a Revision,
    /// Instants after this.
    from: DateTime<Utc>,
    /// Through this; none for the present definition.
    through: Option<DateTime<Utc>>,
}

/// What a span asks for.
enum Watched {
    /// Nothing: deleted, paused, or its owner does not want it.
    No,
    /// Success of each occurrence within this time.
    Yes(Schedule, Duration),
    /// It can't be told.
    Broken(String),
}

/// Where walking one span ended.
enum Stop {
    /// No occurrence is left in it.
    End,
    /// The next one's judgement is not due, or no more may be judged at once.
    Next { occurrence: DateTime<Utc>, judge_at: DateTime<Utc>, due: bool },
}

/// Walks from the cursor to the first occurrence whose judgement is not due at `at`; `max` of them at most. Nothing at
/// before `floor` is expected: the ledger no longer knows. `dates` has the calendars that the definitions name.
pub fn walk(cursor: &Cursor, dates: &DateSets, at: DateTime<Utc>, floor: DateTime<Utc>, max: usize) -> Walk {
    let mut walk = Walk::default();
    // A cursor that never moved stands before its first occurrence, which a change may since have put earlier.
    let mut reached = cursor.judged_through.min(at).max(floor - STEP);
    if cursor.through.is_some_and(|through| through <= reached) {
        walk.closed = true;
        return walk;
    }
    let spans = spans(&cursor.revisions);
    for (index, span) in spans.iter().enumerate() {
        if span.through.is_some_and(|through| through <= reached) {
            continue;
        }
        reached = reached.max(span.from);
        let later = &spans[index + 1..];
        let stop = match span.watched(cursor, dates) {
            Watched::No => Stop::End,
            Watched::Broken(problem) => {
                walk.broken.push((span.from, problem));
                match span.through {
                    Some(_) => Stop::End,
                    None => Stop::Next { occurrence: reached, judge_at: at + BROKEN_AGAIN, due: false },
                }
            }
            Watched::Yes(schedule, within) => {
                let ask = Ask { schedule: &schedule, within, through: span.through, later, at, max };
                ask.walk(&mut reached, &mut walk.expected)
            }
        };
        match (stop, cursor.through) {
            (Stop::End, Some(_)) => {
                walk.closed = true;
                return walk;
            }
            (Stop::Next { judge_at, .. }, Some(through)) => {
                walk.rests.push(Rest { job_id: cursor.job_id, through, judged_through: reached, judge_at });
                return walk;
            }
            (Stop::End, None) => reached = span.through.unwrap_or(reached),
            (Stop::Next { occurrence, judge_at, due }, None) => match span.through {
                Some(through) if !due => {
                    walk.rests.push(Rest {
                        job_id: cursor.job_id,
                        through,
                        judged_through: reached,
                        judge_at,
                    });
                    reached = through;
                }
                _ => {
                    walk.advance = Some(moved(cursor, reached, Some((occurrence, judge_at))));
                    return walk;
                }
            },
        }
    }
    walk.closed = cursor.through.is_some();
    walk.advance = cursor.through.is_none().then(|| moved(cursor, reached, None));
    walk
}

fn moved(
    cursor: &Cursor,
    judged_through: DateTime<Utc>,
    next: Option<(DateTime<Utc>, DateTime<Utc>)>,
) -> Advance {
    Advance {
        job_id: cursor.job_id,
        judged_through,
        next_at: next.map(|(occurrence, _)| occurrence),
        judge_at: next.map(|(_, judge_at)| judge_at),
    }
}

fn spans(revisions: &[Revision]) -> Vec<Span<'_>> {
    let ends = revisions.iter().skip(1).map(|next| Some(next.in_force_from)).chain([None]);
    revisions
        .iter()
        .zip(ends)
        .map(|(revision, through)| Span { revision, from: revision.in_force_from, through })
        .collect()
}

/// True while anybody waits for the job's successes, by its present definition. An alert about another one would be
/// resolved by the very next look, so nobody is told.
pub fn is_awaited(cursor: &Cursor) -> bool {
    cursor.revisions.last().is_none_or(|revision| !withdraws(revision))
}

/// True when nobody waits for successes while this is in force.
fn withdraws(revision: &Revision) -> bool {
    revision.deleted
        || revision.paused
        || revision.definition.as_ref().is_ok_and(|definition| definition.success_within().is_none())
}

impl Span<'_> {
    fn watched(&self, cursor: &Cursor, dates: &DateSets) -> Watched {
        if self.revision.deleted || self.revision.paused {
            return Watched::No;
        }
        let definition = match &self.revision.definition {
            Ok(definition) => definition,
            Err(problem) => return Watched::Broken(problem.clone()),
        };
        let Some(within) = definition.success_within() else { return Watched::No };
        let Some(within) = Duration::from_std(within).ok().filter(|within| *within <= WITHIN_MAX) else {
            return Watched::Broken("its deadline is too far away".to_owned());
        };
        match read(definition, cursor, dates) {
            Ok(schedule) => Watched::Yes(schedule, within),
            Err(problem) => Watched::Broken(problem),
        }
    }
}

fn read(definition: &Definition, cursor: &Cursor, dates: &DateSets) -> Result<Schedule, String> {
    let owner = Owner { tenant: cursor.tenant_id, job: cursor.job_id, created_at: cursor.created_at };
    Schedule::of_job(definition, owner, dates).map_err(|errors| {
        let texts: Vec<_> = errors.iter().map(|error| error.message.as_str()).collect();
        texts.join("; ")
    })
}

/// What is withdrawn with an occurrence.
enum Withdrawn {
    /// All later ones of its span.
    ForGood,
    /// Those through this.
    Through(DateTime<Utc>),
}

/// Walking one watched span.
struct Ask<'a> {
    schedule: &'a Schedule,
    within: Duration,
    through: Option<DateTime<Utc>>,
    later: &'a [Span<'a>],
    at: DateTime<Utc>,
    max: usize,
}

impl Ask<'_> {
    fn walk(&self, reached: &mut DateTime<Utc>, expected: &mut Vec<Expected>) -> Stop {
        loop {
            let next = self.schedule.next(*reached);
            let Some(occurrence) = next.filter(|next| self.through.is_none_or(|through| *next <= through))
            else {
                return Stop::End;
            };
            let deadline = occurrence + self.within;
            match self.withdrawn(deadline) {
                Some(Withdrawn::ForGood) => return Stop::End,
                Some(Withdrawn::Through(through)) if occurrence <= through => {
                    *reached = through;
                    continue;
                }
                Some(Withdrawn::Through(_)) | None => {}
            }
            let judge_at = deadline + SETTLE;
            let due = judge_at <= self.at;
            if !due || expected.len() >= self.max {
                return Stop::Next { occurrence, judge_at, due };
            }
            expected.push(Expected { occurrence, deadline });
            *reached = occurrence;
        }
    }

    /// Whether the definition in force at `deadline` withdraws what is due by then, and through which occurrence. The
    /// present one may be replaced until the judgement is due: until then it withdraws nothing, unless it is a deletion.
    fn withdrawn(&self, deadline: DateTime<Utc>) -> Option<Withdrawn> {
        let span = self.later.iter().rev().find(|span| span.from <= deadline)?;
        if !withdraws(span.revision) {
            return None;
        }
        Some(match span.through {
            _ if span.revision.deleted => Withdrawn::ForGood,
            Some(through) => Withdrawn::Through(through - self.within - STEP),
            None => Withdrawn::Through(self.at - SETTLE - self.within),
        })
    }
}

#[cfg(test)]
mod tests;
