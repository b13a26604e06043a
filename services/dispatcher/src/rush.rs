//! When reports give way to claims. Pure; time is an argument.
//!
//! A start that is late is seen by everybody, a report that is recorded a moment later by nobody: its instant is kept, and
//! its worker holds it until it is answered. So while claims fill their batches one after the other, reports wait: for a
//! second at most, and not when so many wait that there would soon be no place for more. Invariant: reports are let through
//! for as long as they may have waited before they wait again, however claims come and go.

use std::time::{Duration, Instant};

/// Reports give way so long after the first claim of a rush.
const GIVE_WAY_MAX: Duration = Duration::from_secs(1);
/// A rush that pauses for less goes on with what is left of its time.
const CALM_MIN: Duration = GIVE_WAY_MAX;

/// See the module.
#[derive(Debug, Default)]
pub struct Rush {
    /// The first claim.
    since: Option<Instant>,
    /// Since when no claim took all that it may.
    calm: Option<Instant>,
}

impl Rush {
    /// The claims of a turn are done; `more`: one of them took all that it may, and there is likely more.
    pub fn claimed(&mut self, more: bool, now: Instant) {
        if !more {
            self.calm = self.calm.or(Some(now));
            return;
        }
        let calm = self.calm.take();
        if calm.is_some_and(|calm| now.saturating_duration_since(calm) >= CALM_MIN) {
            self.since = None;
        }
        self.since = self.since.or(Some(now));
    }

    /// Whether claims press, and have not for long.
    pub fn presses(&self, now: Instant) -> bool {
        let since = self.since.filter(|_| self.calm.is_none());
        since.is_some_and(|since| now.saturating_duration_since(since) < GIVE_WAY_MAX)
    }

    /// Whether reports wait, of which `waiting` do, where there is place for `places`.
    pub fn holds(&self, waiting: usize, places: usize, now: Instant) -> bool {
        waiting < places - places / 5 && self.presses(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_give_way_to_a_rush_but_neither_for_long_nor_when_many_wait() {
        let start = Instant::now();
        let mut rush = Rush::default();
        assert!(!rush.holds(0, 100, start));
        rush.claimed(true, start);
        rush.claimed(true, start + GIVE_WAY_MAX / 2);
        assert!(rush.holds(79, 100, start + GIVE_WAY_MAX / 2));
        assert!(!rush.holds(80, 100, start + GIVE_WAY_MAX / 2), "there must be place for more");
        assert!(!rush.holds(0, 100, start + GIVE_WAY_MAX), "a rush without an end holds nothing for ever");
        rush.claimed(false, start + GIVE_WAY_MAX / 2);
        assert!(!rush.holds(0, 100, start + GIVE_WAY_MAX / 2));
    }

    #[test]
    fn a_rush_that_pauses_for_a_moment_is_still_the_same_one() {
        let start = Instant::now();
        let at = |hundredths: u32| start + GIVE_WAY_MAX * hundredths / 100;
        let mut rush = Rush::default();
        for turn in 0..100 {
            rush.claimed(turn % 2 == 0, at(turn * 3));
            assert_eq!(rush.presses(at(turn * 3)), turn % 2 == 0 && turn * 3 < 100, "turn {turn}");
        }
        let end = 99 * 3;
        rush.claimed(true, at(end + 99));
        assert!(!rush.presses(at(end + 99)), "reports have had less time than they waited");
        rush.claimed(false, at(end + 100));
        rush.claimed(true, at(end + 200));
        assert!(
            rush.presses(at(end + 299)) && !rush.presses(at(end + 300)),
            "another one, of a second again"
        );
    }

    #[test]
    fn calm_counts_from_its_first_turn_however_often_nothing_more_is_found() {
        let start = Instant::now();
        let mut rush = Rush::default();
        rush.claimed(true, start);
        for tenths in 1..=10 {
            rush.claimed(false, start + CALM_MIN * tenths / 10);
        }
        rush.claimed(true, start + CALM_MIN * 11 / 10);
        assert!(
            rush.presses(start + CALM_MIN * 11 / 10),
            "reports have had their time: this is another rush"
        );
    }
}
