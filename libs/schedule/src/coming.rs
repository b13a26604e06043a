//! What a change of definitions does to the coming runs: which are added, removed or moved, by which rule, and how many
//! are due in the busiest second.
//!
//! Invariants: what is told is true, and all of it, unless it says that it was cut: each window of a job is listed up to
//! [`INSTANTS_MAX`] instants, however many it names. An occurrence is moved when its local day has as many before as
//! after, in order; else it is removed or added. Deliberately not here: which definitions these are.

use crate::plan;
use crate::schedule::Schedule;
use chrono::{DateTime, NaiveDate, TimeDelta, Utc};
use std::collections::{BTreeMap, HashMap};

/// How far ahead.
pub const AHEAD: TimeDelta = TimeDelta::hours(24);
/// Around a clock change, before and after.
const AROUND_CHANGE: TimeDelta = TimeDelta::hours(12);
/// How far ahead a clock change is looked for.
const CHANGE_WITHIN: TimeDelta = TimeDelta::days(366);
/// Instants of one definition that one window lists.
pub const INSTANTS_MAX: usize = 2_000;

/// A run to come that a change touches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is new.
    Added(DateTime<Utc>),
    /// It is gone.
    Removed(DateTime<Utc>),
    /// It is at another time of its day.
    Moved {
        /// When it was to be.
        was: DateTime<Utc>,
        /// When it is to be.
        at: DateTime<Utc>,
    },
}

impl Change {
    /// When it is to be; of one that is gone, when it was to be.
    pub const fn at(&self) -> DateTime<Utc> {
        match self {
            Self::Added(at) | Self::Removed(at) | Self::Moved { at, .. } => *at,
        }
    }
}

/// What a change does to one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coming {
    /// In order of time.
    pub changes: Vec<Change>,
    /// The next clock change of the job's timezone, by the new definition if there is one.
    pub clock_change: Option<DateTime<Utc>>,
    /// There were more instants than are listed.
    pub cut: bool,
}

/// Compares what a job's schedule names after `now` before and after a change, for a day and around the next clock change.
/// None is a job that does not exist, or is paused.
pub fn coming(before: Option<&Schedule>, after: Option<&Schedule>, now: DateTime<Utc>) -> Coming {
    let Some(zone_of) = after.or(before) else { return Coming::default() };
    let clock_change = zone_of.next_clock_change(now).filter(|change| *change <= now + CHANGE_WITHIN);
    let mut coming = Coming { clock_change, ..Coming::default() };
    for (from, to) in windows(now, clock_change) {
        let (was, was_cut) = listed(before, from, to);
        let (is, is_cut) = listed(after, from, to);
        coming.cut |= was_cut || is_cut;
        // Beyond the end of a list that was cut nothing is known of either.
        let known = [(&was, was_cut), (&is, is_cut)];
        let known = known.iter().filter(|(_, cut)| *cut).filter_map(|(list, _)| list.last().copied()).min();
        let within = |at: &&DateTime<Utc>| known.is_none_or(|known| **at <= known);
        let was: Vec<_> = was.iter().filter(within).copied().collect();
        let is: Vec<_> = is.iter().filter(within).copied().collect();
        coming.changes.extend(compare(&was, &is, zone_of));
    }
    coming
}

/// The next day, and what of the time around the clock change lies beyond it.
fn windows(now: DateTime<Utc>, clock_change: Option<DateTime<Utc>>) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
    let day = (now, now + AHEAD);
    let around = clock_change.map(|change| ((change - AROUND_CHANGE).max(day.1), change + AROUND_CHANGE));
    std::iter::once(day).chain(around.filter(|(from, to)| from < to)).collect()
}

/// Instants after `from` through `to`, and whether there are more.
fn listed(schedule: Option<&Schedule>, from: DateTime<Utc>, to: DateTime<Utc>) -> (Vec<DateTime<Utc>>, bool) {
    let Some(schedule) = schedule else { return (Vec::new(), false) };
    let mut instants: Vec<_> = schedule.between(from, to).take(INSTANTS_MAX + 1).collect();
    let cut = instants.len() > INSTANTS_MAX;
    instants.truncate(INSTANTS_MAX);
    (instants, cut)
}

fn compare(was: &[DateTime<Utc>], is: &[DateTime<Utc>], zone_of: &Schedule) -> Vec<Change> {
    let gone = was.iter().filter(|at| is.binary_search(at).is_err());
    let new = is.iter().filter(|at| was.binary_search(at).is_err());
    let mut days: BTreeMap<NaiveDate, [Vec<DateTime<Utc>>; 2]> = BTreeMap::new();
    let day = |at: &DateTime<Utc>| zone_of.local_time(*at).date_naive();
    gone.for_each(|at| days.entry(day(at)).or_default()[0].push(*at));
    new.for_each(|at| days.entry(day(at)).or_default()[1].push(*at));
    let mut changes = Vec::new();
    for [gone, new] in days.into_values() {
        if gone.len() == new.len() {
            changes.extend(gone.into_iter().zip(new).map(|(was, at)| Change::Moved { was, at }));
        } else {
            changes.extend(gone.into_iter().map(Change::Removed));
            changes.extend(new.into_iter().map(Change::Added));
        }
    }
    changes.sort_by_key(Change::at);
    changes
}

/// How many runs are due in each second, jitter included, of the jobs that were added.
#[derive(Debug, Clone, Default)]
pub struct Load {
    seconds: HashMap<i64, u32>,
}

impl Load {
    /// Adds the runs of a job that its schedule names after `now`, for a day; at most `most` of them. How many it added,
    /// and whether there are more.
    pub fn add(&mut self, job: &plan::Definition<'_>, now: DateTime<Utc>, most: usize) -> (usize, bool) {
        let mut added = 0;
        for at in job.schedule.between(now, now + AHEAD) {
            if added == most {
                return (added, true);
            }
            *self.seconds.entry(job.due_at(at).timestamp()).or_default() += 1;
            added += 1;
        }
        (added, false)
    }

    /// The first of the busiest seconds, and how many runs are due in it.
    pub fn peak(&self) -> Option<(DateTime<Utc>, u32)> {
        let busiest =
            self.seconds.iter().max_by_key(|(second, runs)| (**runs, std::cmp::Reverse(**second)))?;
        Some((DateTime::from_timestamp(*busiest.0, 0)?, *busiest.1))
    }
}

impl Schedule {
    /// The next change of the clocks of the schedule's zone after `at`; none when its clocks never change again.
    pub fn next_clock_change(&self, at: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let zone = self.zone();
        let stretch = zone.stretch_at(at.timestamp());
        if stretch == zone.last() {
            return None;
        }
        DateTime::from_timestamp(zone.start(stretch + 1), 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Spec;
    use model::policy::{DstFold, DstGap};
    use std::collections::BTreeSet;

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("an instant")
    }

    fn schedule(expression: &str, timezone: &str, dst_gap: DstGap) -> Schedule {
        Schedule::parse(&Spec {
            expression,
            timezone,
            dst_gap,
            dst_fold: DstFold::First,
            seed: "a",
            anchor: DateTime::UNIX_EPOCH,
        })
        .expect("a schedule")
    }

    fn daily(expression: &str) -> Schedule {
        schedule(expression, "UTC", DstGap::RunAfter)
    }

    #[test]
    fn as_many_on_a_day_are_moved_and_others_are_added_or_removed() {
        let now = at("2027-01-10T00:00:00Z");
        let moved = coming(Some(&daily("0 9 * * *")), Some(&daily("0 10 * * *")), now);
        let (was, is) = (at("2027-01-10T09:00:00Z"), at("2027-01-10T10:00:00Z"));
        assert_eq!(moved.changes, [Change::Moved { was, at: is }]);
        let more = coming(Some(&daily("0 9 * * *")), Some(&daily("0 9,10 * * *")), now);
        assert_eq!(more.changes, [Change::Added(is)]);
        let none = coming(Some(&daily("0 9 * * *")), None, now);
        assert_eq!(none.changes, [Change::Removed(was)]);
        assert_eq!(coming(None, None, now), Coming::default());
    }

    #[test]
    fn a_rule_that_matters_only_at_the_next_clock_change_is_seen() {
        let (skip, after) = (
            schedule("30 2 * * *", "Europe/Berlin", DstGap::Skip),
            schedule("30 2 * * *", "Europe/Berlin", DstGap::RunAfter),
        );
        let found = coming(Some(&skip), Some(&after), at("2027-01-10T00:00:00Z"));
        assert_eq!(found.clock_change, Some(at("2027-03-28T01:00:00Z")));
        assert_eq!(found.changes, [Change::Added(at("2027-03-28T01:00:00Z"))]);
        // On the day itself both windows have it: it is told once.
        let found = coming(Some(&skip), Some(&after), at("2027-03-28T00:00:00Z"));
        assert_eq!(found.changes.len(), 1);
    }

    #[test]
    fn what_is_told_leads_from_what_was_to_what_is() {
        let now = at("2027-03-27T12:00:00Z");
        let through = now + AHEAD;
        let expressions =
            ["0 9 * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 1 *", "15,45 */2 * * *", "H * * * *"];
        for before in expressions {
            for after in expressions {
                let [was, is] = [before, after].map(|text| schedule(text, "Europe/Berlin", DstGap::RunAfter));
                let mut instants: BTreeSet<_> = was.between(now, through).collect();
                for change in coming(Some(&was), Some(&is), now).changes {
                    let (gone, new) = match change {
                        Change::Added(at) => (None, Some(at)),
                        Change::Removed(at) => (Some(at), None),
                        Change::Moved { was, at } => (Some(was), Some(at)),
                    };
                    let within = |at: &DateTime<Utc>| *at <= through;
                    assert!(gone.filter(within).is_none_or(|at| instants.remove(&at)), "{before} {after}");
                    assert!(new.filter(within).is_none_or(|at| instants.insert(at)), "{before} {after}");
                }
                assert_eq!(instants, is.between(now, through).collect(), "{before} {after}");
            }
        }
    }

    #[test]
    fn a_list_that_is_cut_says_nothing_of_what_lies_beyond() {
        let now = at("2027-01-10T00:00:00Z");
        let found = coming(Some(&daily("0 9 * * *")), Some(&daily("* * * * * *")), now);
        assert!(found.cut);
        // 09:00 stays, and is beyond what was listed: it is not told as removed.
        assert!(found.changes.iter().all(|change| matches!(change, Change::Added(_))));
        assert!(found.changes.len() <= INSTANTS_MAX);
    }

    #[test]
    fn the_busiest_second_counts_jitter_and_stops_at_a_limit() {
        let (now, nine) = (at("2027-01-10T00:00:00Z"), daily("0 9 * * *"));
        let job = |jitter: u64, seed| plan::Definition {
            schedule: &nine,
            misfire: model::policy::MisfirePolicy::Once,
            grace: std::time::Duration::from_secs(60),
            catch_up_limit: 1,
            catch_up_window: std::time::Duration::from_secs(60),
            jitter: std::time::Duration::from_secs(jitter),
            job_seed: seed,
        };
        let mut load = Load::default();
        assert_eq!(load.peak(), None);
        for seed in ["a", "b", "c"] {
            assert_eq!(load.add(&job(0, seed), now, 10), (1, false));
        }
        assert_eq!(load.peak(), Some((at("2027-01-10T09:00:00Z"), 3)));
        let mut spread = Load::default();
        for seed in ["a", "b", "c"] {
            spread.add(&job(3_600, seed), now, 10);
        }
        assert_eq!(spread.peak().map(|(_, runs)| runs), Some(1));
        assert_eq!(load.add(&job(0, "d"), now, 0), (0, true));
    }
}
