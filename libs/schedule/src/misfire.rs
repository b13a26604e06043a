//! What becomes of occurrences that were not released in time: which of them still run, and which are recorded.
//!
//! An occurrence is missed when `now > due_at + grace`. Due times rise with the occurrences, so that the missed
//! ones are always the oldest: one instant, the latest missed, says everything, and it is found backward from
//! `now` in two steps however long the outage was. Deliberately not here: why nothing was released.

use crate::plan::{Definition, later};
use chrono::{DateTime, TimeDelta, Utc};
use model::policy::MisfirePolicy;

/// The missed occurrences from a cursor on, seen from the present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backlog {
    /// The latest missed occurrence.
    pub latest: DateTime<Utc>,
    /// The oldest of them that runs; all from there through `latest` do. None when none does.
    pub runs_from: Option<DateTime<Utc>>,
}

/// What becomes of missed occurrences that have a planned row already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Runs late.
    pub late: Option<DateTime<Utc>>,
    /// Run as a backlog, oldest first.
    pub catch_up: Vec<DateTime<Utc>>,
    /// Don't run.
    pub dropped: Vec<DateTime<Utc>>,
}

impl Definition<'_> {
    /// True when an occurrence due at `due_at` was not released in time.
    pub fn is_missed(&self, due_at: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        now > later(due_at, self.grace)
    }

    /// The latest occurrence that is missed now.
    fn latest_missed(&self, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut candidate = self.schedule.previous(earlier(now, self.grace))?;
        // Jitter may keep the newest candidate in time, never the one before it: that is due before this one begins.
        while !self.is_missed(self.due_at(candidate), now) {
            candidate = self.schedule.previous(candidate - TimeDelta::seconds(1))?;
        }
        Some(candidate)
    }

    /// The missed occurrences that are not before `cursor`; none when there are none.
    pub(crate) fn backlog(&self, cursor: DateTime<Utc>, now: DateTime<Utc>) -> Option<Backlog> {
        let latest = self.latest_missed(now).filter(|latest| *latest >= cursor)?;
        let runs_from = match self.misfire {
            MisfirePolicy::Skip => None,
            MisfirePolicy::Once => Some(latest),
            MisfirePolicy::CatchUp => self.newest(latest, cursor, now),
        };
        Some(Backlog { latest, runs_from })
    }

    /// The oldest of the newest occurrences through `latest` that the catch-up limits allow.
    fn newest(
        &self,
        latest: DateTime<Utc>,
        cursor: DateTime<Utc>,
        now: DateTime<Utc>,
    ) -> Option<DateTime<Utc>> {
        let floor = cursor.max(earlier(now, self.catch_up_window));
        let back = |at: &DateTime<Utc>| self.schedule.previous(*at - TimeDelta::seconds(1));
        std::iter::successors(Some(latest), back)
            .take_while(|at| *at >= floor)
            .take(usize::try_from(self.catch_up_limit).unwrap_or(usize::MAX))
            .last()
    }

    /// Decides about planned rows that were missed, given in order. `newer` is how many newer missed occurrences
    /// of the job run already, those that a [`Plan`](crate::Plan) of the same moment brings.
    pub fn settle(&self, missed: &[DateTime<Utc>], newer: usize, now: DateTime<Utc>) -> Settled {
        let limit = usize::try_from(self.catch_up_limit).unwrap_or(usize::MAX).saturating_sub(newer);
        let window = earlier(now, self.catch_up_window);
        let run = match self.misfire {
            MisfirePolicy::Skip => 0,
            MisfirePolicy::Once => usize::from(newer == 0),
            MisfirePolicy::CatchUp => missed.iter().rev().take(limit).take_while(|at| **at >= window).count(),
        };
        let (dropped, run) = missed.split_at(missed.len().saturating_sub(run));
        let dropped = dropped.to_vec();
        match self.misfire {
            MisfirePolicy::Once => Settled { late: run.first().copied(), catch_up: Vec::new(), dropped },
            MisfirePolicy::Skip | MisfirePolicy::CatchUp => {
                Settled { late: None, catch_up: run.to_vec(), dropped }
            }
        }
    }
}

/// `at` less `by`; the beginning of time when that lies before it.
fn earlier(at: DateTime<Utc>, by: std::time::Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    at.checked_sub_signed(by).unwrap_or(DateTime::<Utc>::MIN_UTC)
}
