//! Jobs of one timing, and when their runs are due.
//!
//! Relies on a run being due before its job's next occurrence: what is due in a second belongs to the last occurrence at
//! or before it, and no job has two runs in one second.

use super::count::{Exhausted, Steps};
use crate::local::Named;
use crate::plan;
use crate::schedule::{Kind, Schedule};
use crate::way::Way;
use model::calendar::CalendarVersion;
use model::job::Definition;
use model::policy::{CalendarRule, DstFold, DstGap};
use std::collections::HashMap;
use std::time::Duration;

/// Widths whose places a group remembers; an interval that changes all the time is of no use to remember.
const WIDTHS_MAX: usize = 16;

/// What makes the occurrences of two jobs the same.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Timing {
    /// As written: what a suggestion names.
    expression: String,
    /// What it says, `H` drawn.
    named: Beats,
    timezone: &'static str,
    dst: (DstGap, DstFold),
    exclude: Vec<CalendarVersion>,
    only: Vec<CalendarVersion>,
    rule: CalendarRule,
    bounds: (i64, i64),
    jitter: Duration,
}

#[derive(Debug, PartialEq, Eq, Hash)]
enum Beats {
    Wall(Named),
    Every { anchor: i64, step: i64 },
}

impl Timing {
    /// Of a job of which nobody asks what is due before `from`.
    pub(super) fn of(definition: &Definition, schedule: &Schedule, from: i64) -> Self {
        // What was to be before this is due before `from`, whatever its place in the jitter.
        let from = from.saturating_sub_unsigned(definition.jitter.as_secs() + 1);
        let named = match &schedule.kind {
            Kind::Wall { local, .. } => Beats::Wall(local.named.clone()),
            // Of a beat that began long ago only its phase matters.
            Kind::Every(every) if every.anchor <= from => {
                Beats::Every { anchor: every.anchor.rem_euclid(every.step), step: every.step }
            }
            Kind::Every(every) => Beats::Every { anchor: every.anchor, step: every.step },
        };
        let (first, last) = schedule.bounds();
        Self {
            expression: definition.schedule.clone(),
            named,
            timezone: schedule.timezone(),
            dst: (definition.dst_gap, definition.dst_fold),
            exclude: definition.calendars.exclude.clone(),
            only: definition.calendars.only.clone(),
            rule: definition.calendars.rule,
            bounds: (if first <= from { i64::MIN } else { first }, last),
            jitter: definition.jitter,
        }
    }
}

/// A job of a group.
#[derive(Debug)]
pub(super) struct Member {
    pub name: Box<str>,
    /// Its immutable identity, from which its place is drawn.
    pub seed: String,
}

/// Jobs of one timing.
#[derive(Debug)]
pub(super) struct Group {
    pub schedule: Schedule,
    pub expression: String,
    pub jitter: Duration,
    pub members: Vec<Member>,
}

impl Group {
    pub(super) fn new(definition: &Definition, schedule: Schedule) -> Self {
        let (expression, jitter) = (definition.schedule.clone(), definition.jitter);
        Self { schedule, expression, jitter, members: Vec::new() }
    }

    /// The last occurrence at or before `second`, and how long it is from there to the next.
    fn occurrence(&self, second: i64) -> Option<(i64, Option<i64>)> {
        let at = self.schedule.find(second, Way::Backward)?;
        Some((at, self.schedule.find(at + 1, Way::Forward).map(|next| next - at)))
    }

    /// The names of the jobs that have a run due in `second`.
    pub(super) fn due(&self, second: i64) -> Vec<&str> {
        let Some((at, interval)) = self.occurrence(second) else { return Vec::new() };
        let width = width(self.jitter, interval);
        let due = |member: &&Member| at + place(member, width) == second;
        self.members.iter().filter(due).map(|member| &*member.name).collect()
    }

    /// How many jobs.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.members.len()).unwrap_or(u32::MAX)
    }
}

/// Milliseconds of a spread; no next occurrence is an interval without end.
fn width(jitter: Duration, interval: Option<i64>) -> u64 {
    let interval = interval.and_then(|seconds| u64::try_from(seconds).ok()).map(Duration::from_secs);
    plan::spread_width(jitter, interval.unwrap_or(Duration::MAX))
}

/// Whole seconds from an occurrence until a job's run is due.
fn place(member: &Member, width: u64) -> i64 {
    i64::try_from(plan::place(&member.seed, width) / 1_000).unwrap_or(i64::MAX)
}

/// How the jobs of a group lie in their jitter.
pub(super) struct Places<'a> {
    group: &'a Group,
    jitter: Duration,
    /// Without jitter.
    together: [(i64, u32); 1],
    by_width: HashMap<u64, Vec<(i64, u32)>>,
}

impl<'a> Places<'a> {
    /// As if the group's jobs had this jitter.
    pub(super) fn new(group: &'a Group, jitter: Duration) -> Self {
        Self { group, jitter, together: [(0, group.count())], by_width: HashMap::new() }
    }

    /// Seconds after an occurrence, rising, and how many jobs are due then.
    fn within(&mut self, interval: Option<i64>, steps: &mut Steps) -> Result<&[(i64, u32)], Exhausted> {
        if self.jitter.is_zero() {
            return Ok(&self.together);
        }
        let width = width(self.jitter, interval);
        if !self.by_width.contains_key(&width) {
            steps.take(self.group.members.len())?;
            if self.by_width.len() >= WIDTHS_MAX {
                self.by_width.clear();
            }
        }
        Ok(self.by_width.entry(width).or_insert_with(|| lie(&self.group.members, width)))
    }

    /// How many jobs have a run due in `second`.
    pub(super) fn due(&mut self, second: i64, steps: &mut Steps) -> Result<u32, Exhausted> {
        if self.jitter.is_zero() {
            steps.take(1)?;
            let at = self.group.schedule.find(second, Way::Backward);
            return Ok(if at == Some(second) { self.group.count() } else { 0 });
        }
        steps.take(2)?;
        let Some((at, interval)) = self.group.occurrence(second) else { return Ok(0) };
        let places = self.within(interval, steps)?;
        let found = places.binary_search_by_key(&(second - at), |(after, _)| *after);
        Ok(found.map_or(0, |index| places[index].1))
    }
}

fn lie(members: &[Member], width: u64) -> Vec<(i64, u32)> {
    let mut afters: Vec<i64> = members.iter().map(|member| place(member, width)).collect();
    afters.sort_unstable();
    let together = afters.chunk_by(|one, other| one == other);
    together.map(|jobs| (jobs[0], u32::try_from(jobs.len()).unwrap_or(u32::MAX))).collect()
}

/// The runs of a group in order of their occurrences.
pub(super) struct Walk<'a> {
    places: Places<'a>,
    /// The first occurrence that was not told.
    next: Option<i64>,
}

impl<'a> Walk<'a> {
    /// Beginning with the first occurrence that can be due at `from` or later, if the jobs had this jitter.
    pub(super) fn new(group: &'a Group, jitter: Duration, from: i64) -> Self {
        let last = if jitter.is_zero() { None } else { group.schedule.find(from, Way::Backward) };
        let next = last.or_else(|| group.schedule.find(from, Way::Forward));
        Self { places: Places::new(group, jitter), next }
    }

    /// Tells `due` the seconds in which runs of the occurrences before `until` are due, and how many: nothing that is due
    /// before `until` comes later.
    pub(super) fn advance(
        &mut self,
        until: i64,
        steps: &mut Steps,
        mut due: impl FnMut(i64, u32),
    ) -> Result<(), Exhausted> {
        while let Some(at) = self.next.filter(|at| *at < until) {
            let next = self.places.group.schedule.find(at + 1, Way::Forward);
            let places = self.places.within(next.map(|next| next - at), steps)?;
            steps.take(places.len())?;
            for (after, jobs) in places {
                due(at + after, *jobs);
            }
            self.next = next;
        }
        Ok(())
    }
}
