//! The herd: how many runs of many jobs are due in each second to come, which jobs make the peaks, and what would spread
//! them.
//!
//! Invariants: what is told is exact, jitter, calendars and clock changes included. Jobs of the same timing are counted
//! together, so that ten thousand jobs that are due each second cost as much as one. Where there is more to count than
//! [`STEPS_MAX`], the time is cut short, never the jobs. Deliberately not here: which jobs there are, and runs that no
//! schedule names, such as triggers, retries and backfills.

mod count;
mod group;
mod peaks;
mod respell;
mod spread;

use crate::of_job::{DateSets, Owner};
use crate::schedule::Schedule;
use crate::spec::SpecError;
use chrono::{DateTime, Utc};
use count::{Seconds, Steps};
use group::{Group, Member, Timing};
use model::job::Definition;
use std::collections::HashMap;
use std::time::Duration;

/// Occurrences that are looked at for one picture, and places of jobs in their jitter: a second or two of work, as
/// `libs/schedule/benches/million.rs` measures it.
pub const STEPS_MAX: u64 = 20_000_000;
/// One part of so many of those goes into finding out what would spread the peaks.
const SPREAD_PART: u64 = 4;
/// Seconds that are counted before and after the time that is shown: as far as a suggestion moves a run.
const MARGIN: i64 = 3_600;
/// Lengths of a bucket in seconds, each of which days begin with.
const BUCKETS: [i64; 20] = [
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600, 7_200, 10_800, 14_400, 21_600, 43_200,
    86_400,
];

/// Jobs whose load is looked at, by their timing.
#[derive(Debug)]
pub struct Herd {
    /// The first second that is shown.
    from: i64,
    /// The first one after those.
    to: i64,
    groups: Vec<Group>,
    known: HashMap<Timing, usize>,
    jobs: usize,
    steps: u64,
}

/// The load of some time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The first second.
    pub from: DateTime<Utc>,
    /// The first one that is not counted.
    pub to: DateTime<Utc>,
    /// There was too much to count: it ends earlier than was asked for.
    pub cut: bool,
    /// Jobs that were counted.
    pub jobs: usize,
    /// Runs that are due.
    pub runs: u64,
    /// The first of the busiest seconds with its runs; none when nothing is due.
    pub busiest: Option<(DateTime<Utc>, u32)>,
    /// How long a bucket is.
    pub bucket: Duration,
    /// The whole time, in order; the first and the last bucket may reach beyond it.
    pub buckets: Vec<Bucket>,
    /// The seconds that stand out, the busiest first.
    pub peaks: Vec<Peak>,
}

/// A stretch of a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bucket {
    /// When it begins.
    pub at: DateTime<Utc>,
    /// Runs that are due in it.
    pub runs: u64,
    /// Runs that are due in its busiest second.
    pub peak: u32,
}

/// A second in which many more runs are due than around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peak {
    /// When it is; of several of the same jobs, the first.
    pub at: DateTime<Utc>,
    /// Runs that are due in it.
    pub runs: u32,
    /// How often the same jobs make such a peak, at least.
    pub times: u32,
    /// Some of the jobs that make it, by name.
    pub jobs: Vec<String>,
    /// What would spread it, if anything does.
    pub spreads: Vec<Spread>,
}

/// A change of definitions that spreads a peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// What to write.
    pub by: By,
    /// Into how many definitions.
    pub jobs: usize,
    /// How many runs would then be due in the busiest of the seconds over which the peak is spread.
    pub peak: u32,
}

/// What spreads jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// This jitter, for the jobs of the peak that have less.
    Jitter(Duration),
    /// An expression with `H`, for the jobs of the peak that have another one and no jitter.
    Schedule {
        /// What they have.
        was: String,
        /// What to write instead.
        is: String,
    },
}

/// There is more due than can be counted, within the first minutes already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{jobs} jobs have too many runs of different timing to count")]
pub struct TooMuch {
    /// The jobs.
    pub jobs: usize,
}

impl Herd {
    /// No job yet, looked at from `from` until `to`, which itself does not count. Both count in whole seconds.
    pub fn new(from: DateTime<Utc>, to: DateTime<Utc>) -> Self {
        let (from, to) = (from.timestamp(), to.timestamp());
        Self { from, to, groups: Vec::new(), known: HashMap::new(), jobs: 0, steps: STEPS_MAX }
    }

    /// The same, with another limit than [`STEPS_MAX`].
    #[must_use]
    pub const fn within(mut self, steps: u64) -> Self {
        self.steps = steps;
        self
    }

    /// Adds a job.
    ///
    /// # Errors
    /// Everything for which its definition can't be used; it is not counted then.
    pub fn add(
        &mut self,
        name: &str,
        definition: &Definition,
        owner: Owner,
        dates: &DateSets,
    ) -> Result<(), Vec<SpecError>> {
        let schedule = Schedule::of_job(definition, owner, dates)?;
        let timing = Timing::of(definition, &schedule, self.from - MARGIN);
        let place = *self.known.entry(timing).or_insert(self.groups.len());
        if place == self.groups.len() {
            self.groups.push(Group::new(definition, schedule));
        }
        self.groups[place].members.push(Member { name: name.into(), seed: owner.job.to_string() });
        self.jobs += 1;
        Ok(())
    }

    /// How many jobs were added.
    pub const fn jobs(&self) -> usize {
        self.jobs
    }

    /// The load, in at most `buckets` buckets, or in days when those are more, with the jobs that make the peaks. Takes as
    /// long as [`STEPS_MAX`] says.
    ///
    /// # Errors
    /// [`TooMuch`].
    pub fn look(&self, buckets: usize) -> Result<Picture, TooMuch> {
        let mut steps = Steps::new(self.steps - self.steps / SPREAD_PART);
        let seconds = Seconds::count(&self.groups, self.from - MARGIN, self.to + MARGIN, &mut steps);
        let to = self.to.min(seconds.end() - MARGIN);
        if to <= self.from {
            return Err(TooMuch { jobs: self.jobs });
        }
        let counted = seconds.between(self.from, to);
        let busiest = (self.from..to).zip(counted).filter(|(_, runs)| **runs > 0);
        let busiest = busiest.max_by_key(|(second, runs)| (**runs, std::cmp::Reverse(*second)));
        let mut steps = Steps::new(self.steps / SPREAD_PART);
        let peaks = peaks::find(&self.groups, &seconds, self.from, to);
        let peaks = peaks.into_iter().map(|found| Peak {
            at: instant(found.at),
            runs: found.runs,
            times: found.times,
            jobs: found.names(&self.groups),
            spreads: spread::of(&self.groups, &seconds, &found, &mut steps),
        });
        let length = bucket(self.from, to, buckets);
        Ok(Picture {
            from: instant(self.from),
            to: instant(to),
            cut: to < self.to,
            jobs: self.jobs,
            runs: counted.iter().map(|runs| u64::from(*runs)).sum(),
            busiest: busiest.map(|(second, runs)| (instant(second), *runs)),
            bucket: Duration::from_secs(length.unsigned_abs()),
            buckets: drawn(&seconds, self.from, to, length),
            peaks: peaks.collect(),
        })
    }
}

/// The shortest length that cuts the time into at most `most` buckets; days when none does.
fn bucket(from: i64, to: i64, most: usize) -> i64 {
    let count = |length: i64| (to - 1).div_euclid(length) - from.div_euclid(length) + 1;
    let fits = |length: &&i64| usize::try_from(count(**length)).is_ok_and(|count| count <= most);
    BUCKETS.iter().find(fits).copied().unwrap_or(86_400)
}

fn drawn(seconds: &Seconds, from: i64, to: i64, length: i64) -> Vec<Bucket> {
    let buckets = from.div_euclid(length)..=(to - 1).div_euclid(length);
    let bucket = |index: i64| {
        let at = index * length;
        let runs = seconds.between(at.max(from), (at + length).min(to));
        Bucket {
            at: instant(at),
            runs: runs.iter().map(|runs| u64::from(*runs)).sum(),
            peak: runs.iter().copied().max().unwrap_or(0),
        }
    };
    buckets.map(bucket).collect()
}

/// A second that a schedule names; those end long before chrono does.
fn instant(second: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(second, 0).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_as_short_as_fit() {
        for (from, to, most, expected) in [
            (0, 86_400, 96, 900),
            (0, 86_400, 72, 1_200),
            (60, 86_460, 72, 1_800),
            (0, 60, 96, 1),
            (0, 60, 10, 10),
            (5, 604_805, 10, 86_400),
            (5, 604_805, 7, 86_400),
        ] {
            assert_eq!(bucket(from, to, most), expected, "{from} {to} {most}");
        }
    }
}
