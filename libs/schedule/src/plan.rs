//! Planning one job: from its cursor to the horizon, every occurrence is decided exactly once.
//!
//! Invariant: each occurrence that is not before the cursor and not after the horizon appears in exactly one of
//! `planned`, `late`, `catch_up` and the counts of `missed`, or is not before `next_cursor`
//! (`every_occurrence_ends_in_exactly_one_place`). Deliberately not here: cursors, rows and transactions.

use crate::hash;
use crate::schedule::Schedule;
use chrono::{DateTime, TimeDelta, Utc};
use model::policy::MisfirePolicy;
use std::time::Duration;

/// What planning needs to know of a job.
#[derive(Debug, Clone, Copy)]
pub struct Definition<'a> {
    /// When it is due.
    pub schedule: &'a Schedule,
    /// What becomes of missed occurrences.
    pub misfire: MisfirePolicy,
    /// How late an occurrence may be released before it counts as missed.
    pub grace: Duration,
    /// The most missed occurrences that `CATCH_UP` runs.
    pub catch_up_limit: u32,
    /// How far back `CATCH_UP` reaches.
    pub catch_up_window: Duration,
    /// How far starts are spread.
    pub jitter: Duration,
    /// The job's immutable identity, from which its place in the spread is drawn.
    pub job_seed: &'a str,
}

/// An occurrence that becomes a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// The instant that the schedule names.
    pub scheduled_for: DateTime<Utc>,
    /// That, moved by jitter: before the next occurrence.
    pub due_at: DateTime<Utc>,
    /// Not released by then, it is missed; a late one has no such bound.
    pub start_by: Option<DateTime<Utc>>,
}

/// Consecutive occurrences that are recorded and don't run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    /// The oldest.
    pub first: DateTime<Utc>,
    /// The newest.
    pub last: DateTime<Utc>,
    /// How many, both included.
    pub count: u64,
}

/// What one batch does for a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[must_use]
pub struct Plan {
    /// On time, in order.
    pub planned: Vec<Occurrence>,
    /// The latest missed one, with `ONCE`.
    pub late: Option<Occurrence>,
    /// Missed ones that run, oldest first, with `CATCH_UP`.
    pub catch_up: Vec<DateTime<Utc>>,
    /// Missed ones that don't run, in order.
    pub missed: Vec<Missed>,
    /// The first occurrence that this plan does not decide; none when the schedule is exhausted.
    pub next_cursor: Option<DateTime<Utc>>,
    /// False when the batch was cut off: what is decided must be committed, and planning goes on at `next_cursor`.
    pub reached_now: bool,
}

/// Plans from `cursor`, the first instant not planned yet, through `horizon`, but at least through `now`.
///
/// A batch decides about `instants_max` occurrences. Which missed ones run is known only at the end of the
/// backlog, where they are decided together: batches before it only count, so that the newest stay the newest
/// while `now` moves on between batches. The one that reaches the end may therefore hold up to
/// `catch_up_limit` occurrences, and half a batch of those that it counts, if that is more.
pub fn plan(
    definition: &Definition<'_>,
    cursor: DateTime<Utc>,
    now: DateTime<Utc>,
    horizon: DateTime<Utc>,
    instants_max: usize,
) -> Plan {
    let mut batch = Batch {
        definition,
        at: definition.schedule.first_from(cursor),
        left: instants_max.max(1),
        max: instants_max.max(1),
        plan: Plan::default(),
    };
    let reached_now = batch.decide_missed(cursor, now) && batch.plan_through(horizon.max(now));
    Plan { next_cursor: batch.at, reached_now, ..batch.plan }
}

/// A plan while it is made.
struct Batch<'a> {
    definition: &'a Definition<'a>,
    /// The first occurrence not decided.
    at: Option<DateTime<Utc>>,
    /// How many more may be decided.
    left: usize,
    /// How many there were.
    max: usize,
    plan: Plan,
}

impl Batch<'_> {
    /// Decides the missed occurrences; false when the batch was cut off before their end.
    fn decide_missed(&mut self, cursor: DateTime<Utc>, now: DateTime<Utc>) -> bool {
        let Some(backlog) = self.definition.backlog(cursor, now) else { return true };
        let counts = |at: DateTime<Utc>| match backlog.runs_from {
            Some(runs_from) => at < runs_from,
            None => at <= backlog.latest,
        };
        let mut missed: Option<Missed> = None;
        while let Some(at) = self.at.filter(|at| counts(*at)) {
            if self.left == 0 {
                self.plan.missed.extend(missed);
                return false;
            }
            let run = missed.get_or_insert(Missed { first: at, last: at, count: 0 });
            run.last = at;
            run.count += 1;
            self.advance(at);
        }
        self.plan.missed.extend(missed);
        self.run_missed(backlog.latest)
    }

    /// Decides that the occurrences from here through `latest` run, all in this batch or none.
    fn run_missed(&mut self, latest: DateTime<Utc>) -> bool {
        let Some(oldest) = self.at.filter(|at| *at <= latest) else { return true };
        if self.definition.misfire == MisfirePolicy::Once {
            if self.left == 0 {
                return false;
            }
            let due_at = self.definition.due_at(latest);
            self.plan.late = Some(Occurrence { scheduled_for: latest, due_at, start_by: None });
            self.advance(latest);
            return true;
        }
        let before = oldest - TimeDelta::seconds(1);
        let runs: Vec<DateTime<Utc>> = self.definition.schedule.between(before, latest).collect();
        // Put off only by a batch that had much to count: the next one has little, and must not be put off by what has come
        // due meanwhile (`a_backlog_larger_than_a_batch_runs_although_time_goes_on`).
        if runs.len() > self.left && self.left < self.max / 2 {
            return false;
        }
        self.left = self.left.saturating_sub(runs.len());
        self.plan.catch_up = runs;
        self.at = self.definition.schedule.next(latest);
        true
    }

    /// Plans what is on time; false when the batch was cut off before `horizon`.
    fn plan_through(&mut self, horizon: DateTime<Utc>) -> bool {
        while let Some(at) = self.at.filter(|at| *at <= horizon) {
            if self.left == 0 {
                return false;
            }
            self.advance(at);
            let due_at = self.definition.due_before(at, self.at);
            let start_by = Some(later(due_at, self.definition.grace));
            self.plan.planned.push(Occurrence { scheduled_for: at, due_at, start_by });
        }
        true
    }

    fn advance(&mut self, decided: DateTime<Utc>) {
        self.left = self.left.saturating_sub(1);
        self.at = self.definition.schedule.next(decided);
    }
}

impl<'a> Definition<'a> {
    /// What planning needs of a stored definition and its schedule; `job_seed` is the job's immutable identity.
    pub fn of(definition: &model::job::Definition, schedule: &'a Schedule, job_seed: &'a str) -> Self {
        Self {
            schedule,
            misfire: definition.misfire.policy,
            grace: definition.misfire.grace,
            catch_up_limit: definition.misfire.catch_up_limit,
            catch_up_window: definition.misfire.catch_up_window,
            jitter: definition.jitter,
            job_seed,
        }
    }
}

impl Definition<'_> {
    /// When the occurrence at `scheduled_for` is due: the same each time it is asked, and before the next one.
    pub fn due_at(&self, scheduled_for: DateTime<Utc>) -> DateTime<Utc> {
        if self.jitter.is_zero() {
            return scheduled_for;
        }
        self.due_before(scheduled_for, self.schedule.next(scheduled_for))
    }

    /// The job's place in the spread. A spread longer than the interval is cut to it, and the job keeps its
    /// relative place: jobs must not gather at the interval's end.
    fn due_before(&self, scheduled_for: DateTime<Utc>, next: Option<DateTime<Utc>>) -> DateTime<Utc> {
        let interval = next.and_then(|next| (next - scheduled_for).to_std().ok()).unwrap_or(Duration::MAX);
        let width = spread_width(self.jitter, interval);
        later(scheduled_for, Duration::from_millis(place(self.job_seed, width)))
    }
}

/// Milliseconds over which starts are spread: the jitter, cut to the interval.
pub(crate) fn spread_width(jitter: Duration, interval: Duration) -> u64 {
    u64::try_from(jitter.min(interval).as_millis()).unwrap_or(u64::MAX)
}

/// A job's place in a spread: milliseconds, fewer than `width`.
pub(crate) fn place(job_seed: &str, width: u64) -> u64 {
    hash::scale(job_seed, "jitter", width)
}

/// `at` plus `by`; the end of time when that lies beyond it.
pub(crate) fn later(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    at.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
}
