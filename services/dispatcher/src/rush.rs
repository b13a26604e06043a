//! When reports give way to claims. Pure; time is an argument.
//!
//! A start that is late is seen by everybody, a report that is recorded a moment later by nobody: its instant is kept, and
//! its worker holds it until it is answered. So while claims fill their batches one after the other, reports wait: for a
//! second at most, and not when so many wait that there would soon be no place for more.

use std::time::{Duration, Instant};

/// Reports give way so long after the first claim of a rush.
const GIVE_WAY_MAX: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub struct Rush {
    since: Option<Instant>,
}

impl Rush {
    /// The claims of a turn are done; `more`: one of them took all that it may, and there is likely more.
    pub fn claimed(&mut self, more: bool, now: Instant) {
        self.since = if more { self.since.or(Some(now)) } else { None };
    }

    /// Whether reports wait, of which `waiting` do, where there is place for `places`.
    pub fn holds(&self, waiting: usize, places: usize, now: Instant) -> bool {
        let presses = |since| now.saturating_duration_since(since) < GIVE_WAY_MAX;
        waiting < places - places / 5 && self.since.is_some_and(presses)
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
}
