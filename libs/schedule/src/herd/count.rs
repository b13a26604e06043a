//! Counting runs by the second, as far as the steps go.

use super::group::{Group, Walk};

/// Into how many slices the time is cut, so that what was counted is whole up to some moment.
const SLICES: i64 = 1_440;
/// The shortest slice, in seconds.
const SLICE_MIN: i64 = 60;

/// How much may still be looked at.
pub(super) struct Steps {
    left: u64,
}

/// No step is left.
#[derive(Debug)]
pub(super) struct Exhausted;

impl Steps {
    pub(super) const fn new(left: u64) -> Self {
        Self { left }
    }

    /// Takes some; once there are too few, there are none.
    pub(super) fn take(&mut self, steps: usize) -> Result<(), Exhausted> {
        let left = self.left.checked_sub(steps as u64);
        self.left = left.unwrap_or(0);
        left.map(drop).ok_or(Exhausted)
    }
}

/// How many runs are due in each second of some time.
pub(super) struct Seconds {
    start: i64,
    runs: Vec<u32>,
}

impl Seconds {
    /// Counts from `start` to `end`, or to an earlier moment when the steps don't suffice.
    pub(super) fn count(groups: &[Group], start: i64, end: i64, steps: &mut Steps) -> Self {
        let mut seconds =
            Self { start, runs: vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)] };
        let slice = ((end - start) / SLICES).max(SLICE_MIN);
        let mut walks: Vec<_> = groups.iter().map(|group| Walk::new(group, group.jitter, start)).collect();
        let mut reached = start;
        while reached < end {
            let until = (reached + slice).min(end);
            let mut walks = walks.iter_mut();
            let whole = walks
                .try_for_each(|walk| walk.advance(until, steps, |second, jobs| seconds.add(second, jobs)));
            if whole.is_err() {
                break;
            }
            reached = until;
        }
        seconds.runs.truncate(seconds.index(reached));
        seconds
    }

    fn add(&mut self, second: i64, jobs: u32) {
        let place = usize::try_from(second - self.start).ok().and_then(|index| self.runs.get_mut(index));
        if let Some(runs) = place {
            *runs = runs.saturating_add(jobs);
        }
    }

    fn index(&self, second: i64) -> usize {
        usize::try_from(second - self.start).unwrap_or(0).min(self.runs.len())
    }

    /// The first second that is not counted.
    pub(super) fn end(&self) -> i64 {
        self.start + i64::try_from(self.runs.len()).unwrap_or(i64::MAX)
    }

    /// The counts from `from` until before `to`, as far as there are any.
    pub(super) fn between(&self, from: i64, to: i64) -> &[u32] {
        let (from, to) = (self.index(from), self.index(to));
        self.runs.get(from..to).unwrap_or(&[])
    }

    /// The count of one second.
    pub(super) fn at(&self, second: i64) -> u32 {
        self.between(second, second + 1).first().copied().unwrap_or(0)
    }
}
