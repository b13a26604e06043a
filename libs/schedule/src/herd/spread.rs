//! What would spread a peak, and what it would then be: tried, not estimated.

use super::count::{Exhausted, Seconds, Steps};
use super::group::{Group, Walk};
use super::peaks::Found;
use super::respell::{self, Respelled};
use super::{By, Spread};
use crate::way::Way;
use std::collections::BTreeMap;
use std::time::Duration;

/// Jitters that are tried, in seconds.
const JITTERS: [u32; 5] = [60, 300, 600, 1_800, 3_600];
/// A jitter is long enough that leaves no more than this part of the peak.
const PART: u32 = 10;
/// Steps that reading an expression counts for.
const READING_STEPS: usize = 20;

/// The shortest jitter that does, and the expression with `H`; only what makes the peak lower, and what the steps
/// suffice for.
pub(super) fn of(groups: &[Group], seconds: &Seconds, peak: &Found, steps: &mut Steps) -> Vec<Spread> {
    let by_jitter = by_jitter(groups, seconds, peak, steps).unwrap_or_default();
    let by_h = by_h(groups, seconds, peak, steps).unwrap_or_default();
    by_jitter.into_iter().chain(by_h).filter(|spread| spread.peak < peak.runs).collect()
}

fn by_jitter(
    groups: &[Group],
    seconds: &Seconds,
    peak: &Found,
    steps: &mut Steps,
) -> Result<Option<Spread>, Exhausted> {
    let mut best: Option<Spread> = None;
    for length in JITTERS {
        let jitter = Duration::from_secs(length.into());
        let moved = peak.parts.iter().map(|(group, _)| &groups[*group]);
        let moved: Vec<&Group> = moved.filter(|group| group.jitter < jitter).collect();
        if moved.is_empty() {
            continue;
        }
        let mut change = Change::new(peak.at, peak.at + i64::from(length));
        for group in &moved {
            change.remove(group, steps)?;
            change.add(group, jitter, steps)?;
        }
        let jobs = moved.iter().map(|group| group.members.len()).sum();
        let spread = Spread { by: By::Jitter(jitter), jobs, peak: change.busiest(seconds, peak.at) };
        if best.as_ref().is_none_or(|best| spread.peak < best.peak) {
            best = Some(spread);
        }
        if best.as_ref().is_some_and(|best| best.peak <= peak.runs / PART) {
            break;
        }
    }
    Ok(best)
}

fn by_h(
    groups: &[Group],
    seconds: &Seconds,
    peak: &Found,
    steps: &mut Steps,
) -> Result<Option<Spread>, Exhausted> {
    let mut by_expression: BTreeMap<&str, Vec<&Group>> = BTreeMap::new();
    let of_peak = peak.parts.iter().map(|(group, _)| &groups[*group]);
    for group in of_peak.filter(|group| group.jitter.is_zero()) {
        by_expression.entry(&group.expression).or_default().push(group);
    }
    let jobs = |groups: &[&Group]| groups.iter().map(|group| group.members.len()).sum::<usize>();
    let most = by_expression.into_iter().max_by_key(|(_, groups)| jobs(groups));
    let Some((was, moved)) = most else { return Ok(None) };
    let Some(Respelled { text, reach }) = respell::with_h(was) else { return Ok(None) };
    let mut change = Change::new(peak.at - reach + 1, peak.at + reach);
    for group in &moved {
        change.remove(group, steps)?;
        if !change.add_respelled(group, &text, steps)? {
            return Ok(None);
        }
    }
    let by = By::Schedule { was: was.to_owned(), is: text };
    Ok(Some(Spread { by, jobs: jobs(&moved), peak: change.busiest(seconds, peak.at) }))
}

/// How the runs of some jobs would move around a peak.
struct Change {
    from: i64,
    /// Runs that each second gains or loses.
    moved: Vec<i64>,
    /// Whether one comes to it.
    reached: Vec<bool>,
}

impl Change {
    fn new(from: i64, to: i64) -> Self {
        let length = usize::try_from(to - from).unwrap_or(0);
        Self { from, moved: vec![0; length], reached: vec![false; length] }
    }

    fn to(&self) -> i64 {
        self.from + i64::try_from(self.moved.len()).unwrap_or(0)
    }

    fn put(&mut self, second: i64, jobs: i64) {
        let Some(index) = usize::try_from(second - self.from).ok().filter(|index| *index < self.moved.len())
        else {
            return;
        };
        self.moved[index] += jobs;
        self.reached[index] |= jobs > 0;
    }

    /// Takes a group's runs away.
    fn remove(&mut self, group: &Group, steps: &mut Steps) -> Result<(), Exhausted> {
        let (from, to) = (self.from, self.to());
        let mut walk = Walk::new(group, group.jitter, from);
        walk.advance(to, steps, |second, jobs| self.put(second, -i64::from(jobs)))
    }

    /// Puts a group's runs where they would be with this jitter.
    fn add(&mut self, group: &Group, jitter: Duration, steps: &mut Steps) -> Result<(), Exhausted> {
        let (from, to) = (self.from, self.to());
        let mut walk = Walk::new(group, jitter, from);
        walk.advance(to, steps, |second, jobs| self.put(second, i64::from(jobs)))
    }

    /// Puts a group's runs where they would be with this expression; false when it can't be used.
    fn add_respelled(&mut self, group: &Group, text: &str, steps: &mut Steps) -> Result<bool, Exhausted> {
        for member in &group.members {
            steps.take(READING_STEPS)?;
            let Some(schedule) = group.schedule.respelled(text, &member.seed) else { return Ok(false) };
            let mut next = schedule.find(self.from, Way::Forward);
            while let Some(at) = next.filter(|at| *at < self.to()) {
                steps.take(1)?;
                self.put(at, 1);
                next = schedule.find(at + 1, Way::Forward);
            }
        }
        Ok(true)
    }

    /// The busiest of the seconds to which a run came, and of the peak itself.
    fn busiest(&self, seconds: &Seconds, peak: i64) -> u32 {
        let then = (self.from..).zip(&self.moved).zip(&self.reached);
        let then = then.filter(|((second, _), reached)| **reached || *second == peak);
        let runs = then.map(|((second, moved), _)| i64::from(seconds.at(second)) + moved);
        runs.max().and_then(|runs| u32::try_from(runs).ok()).unwrap_or(0)
    }
}
