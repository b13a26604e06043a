//! Which seconds stand out, and whose they are.
//!
//! A second stands out when at least two runs are due in it, and at least twice as many as in an average second of its
//! minute: a load that is spread evenly has no peak, however high it is.

use super::count::{Exhausted, Seconds, Steps};
use super::group::{Group, Places};
use std::collections::HashMap;

/// Peaks that are told.
const PEAKS_MAX: usize = 5;
/// Jobs of each that are named.
const NAMES_MAX: usize = 10;
/// Seconds whose jobs are compared at least, the busiest ones.
const COMPARED_MIN: usize = 32;
/// Looks at whether a group has a run due in a second, beyond those.
const LOOKS_MAX: usize = 4_000_000;

/// A peak, and the groups that make it.
pub(super) struct Found {
    /// The first second of the same jobs.
    pub at: i64,
    pub runs: u32,
    /// How many of the compared seconds are of the same jobs.
    pub times: u32,
    /// Places of the groups, rising, and how many runs each has.
    pub parts: Vec<(usize, u32)>,
}

impl Found {
    /// Some of the jobs, by name.
    pub(super) fn names(&self, groups: &[Group]) -> Vec<String> {
        let due = self.parts.iter().flat_map(|(group, _)| groups[*group].due(self.at));
        let mut names: Vec<&str> = due.collect();
        names.sort_unstable();
        names.into_iter().take(NAMES_MAX).map(str::to_owned).collect()
    }
}

/// The peaks from `from` until before `to`, the busiest first.
pub(super) fn find(groups: &[Group], seconds: &Seconds, from: i64, to: i64) -> Vec<Found> {
    let mut standing = standing_out(seconds, from, to);
    standing.sort_unstable_by_key(|(at, runs)| (std::cmp::Reverse(*runs), *at));
    standing.truncate((LOOKS_MAX / groups.len().max(1)).max(COMPARED_MIN));
    let mut places: Vec<_> = groups.iter().map(|group| Places::new(group, group.jitter)).collect();
    let mut steps = Steps::new(4 * LOOKS_MAX as u64);
    let mut found: Vec<Found> = Vec::new();
    let mut known: HashMap<Vec<(usize, u32)>, usize> = HashMap::new();
    for (at, runs) in standing {
        let Ok(parts) = parts(&mut places, at, &mut steps) else { break };
        if let Some(same) = known.get(&parts) {
            found[*same].times += 1;
            continue;
        }
        if found.len() < PEAKS_MAX {
            known.insert(parts.clone(), found.len());
            found.push(Found { at, runs, times: 1, parts });
        }
    }
    found
}

/// The busiest second of each minute that has one which stands out.
fn standing_out(seconds: &Seconds, from: i64, to: i64) -> Vec<(i64, u32)> {
    let minutes = from.div_euclid(60)..=(to - 1).div_euclid(60);
    let peak = |minute: i64| {
        let start = minute * 60;
        let of_minute: u64 = seconds.between(start, start + 60).iter().map(|runs| u64::from(*runs)).sum();
        let shown = (start.max(from)..).zip(seconds.between(start.max(from), (start + 60).min(to)));
        let (at, runs) = shown.max_by_key(|(at, runs)| (**runs, std::cmp::Reverse(*at)))?;
        (*runs >= 2 && u64::from(*runs) * 60 >= 2 * of_minute).then_some((at, *runs))
    };
    minutes.filter_map(peak).collect()
}

fn parts(places: &mut [Places<'_>], at: i64, steps: &mut Steps) -> Result<Vec<(usize, u32)>, Exhausted> {
    let mut parts = Vec::new();
    for (group, places) in places.iter_mut().enumerate() {
        let runs = places.due(at, steps)?;
        if runs > 0 {
            parts.push((group, runs));
        }
    }
    Ok(parts)
}
