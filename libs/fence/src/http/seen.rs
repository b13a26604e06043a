//! The highest token of each key, and who is at work under it. Pure: time is an argument.

use crate::{FencingToken, GuardKey};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// A full table is searched for forgettable keys at most this often: the search looks at every key.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// What becomes of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entry {
    /// It counts as at work; [`Seen::turn`] says when it may begin.
    Entered,
    /// A higher token was seen.
    Stale(FencingToken),
    /// There is no room for one more key.
    Full,
}

/// Whether one that has entered may begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nobody of a lower token is at work.
    Now,
    /// Somebody is; ask again after a [`Seen::leave`].
    Later,
    /// While it waited a higher token came.
    Stale(FencingToken),
}

#[derive(Debug)]
struct State {
    highest: FencingToken,
    used: Instant,
    /// How many are at work, by token; never zero.
    at_work: BTreeMap<FencingToken, usize>,
}

/// The table. Invariant: a key with somebody at work is never forgotten.
#[derive(Debug)]
pub(super) struct Seen {
    keep: Duration,
    keys_max: usize,
    keys: HashMap<GuardKey, State>,
    swept: Option<Instant>,
}

impl Seen {
    pub(super) fn new(keep: Duration, keys_max: usize) -> Self {
        Self { keep, keys_max, keys: HashMap::new(), swept: None }
    }

    /// A request has come.
    pub(super) fn enter(&mut self, key: &GuardKey, token: FencingToken, now: Instant) -> Entry {
        if !self.keys.contains_key(key) && !self.has_room(now) {
            return Entry::Full;
        }
        let new = || State { highest: token, used: now, at_work: BTreeMap::new() };
        let state = self.keys.entry(key.clone()).or_insert_with(new);
        if token < state.highest {
            return Entry::Stale(state.highest);
        }
        (state.highest, state.used) = (token, now);
        *state.at_work.entry(token).or_default() += 1;
        Entry::Entered
    }

    /// May one that has entered begin?
    pub(super) fn turn(&self, key: &GuardKey, token: FencingToken) -> Turn {
        match self.keys.get(key) {
            Some(state) if state.highest > token => Turn::Stale(state.highest),
            Some(state) if state.at_work.range(..token).next().is_some() => Turn::Later,
            _ => Turn::Now,
        }
    }

    /// One that had entered has ended, or given up.
    pub(super) fn leave(&mut self, key: &GuardKey, token: FencingToken) {
        let Some(state) = self.keys.get_mut(key) else { return };
        if let Some(count) = state.at_work.get_mut(&token) {
            *count -= 1;
            if *count == 0 {
                state.at_work.remove(&token);
            }
        }
    }

    fn has_room(&mut self, now: Instant) -> bool {
        let sweep = self.swept.is_none_or(|swept| now.duration_since(swept) >= SWEEP_EVERY);
        if self.keys.len() >= self.keys_max && sweep {
            let keep = self.keep;
            self.keys.retain(|_, state| !state.at_work.is_empty() || now.duration_since(state.used) < keep);
            self.swept = Some(now);
        }
        self.keys.len() < self.keys_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn key(text: &str) -> GuardKey {
        text.parse().expect("a guard key")
    }

    fn token(value: i64) -> FencingToken {
        FencingToken::from_i64(value).expect("positive")
    }

    #[test]
    fn a_lower_token_is_stale_and_an_equal_one_is_not() {
        let (mut seen, now) = (Seen::new(DAY, 10), Instant::now());
        assert_eq!(seen.enter(&key("job"), token(6), now), Entry::Entered);
        assert_eq!(seen.enter(&key("job"), token(6), now), Entry::Entered);
        assert_eq!(seen.enter(&key("job"), token(5), now), Entry::Stale(token(6)));
        assert_eq!(seen.enter(&key("other"), token(5), now), Entry::Entered);
    }

    #[test]
    fn a_newer_one_waits_for_the_older_ones_at_work() {
        let (mut seen, now) = (Seen::new(DAY, 10), Instant::now());
        for value in [5, 5, 6] {
            assert_eq!(seen.enter(&key("job"), token(value), now), Entry::Entered);
        }
        assert_eq!(seen.turn(&key("job"), token(6)), Turn::Later);
        seen.leave(&key("job"), token(5));
        assert_eq!(seen.turn(&key("job"), token(6)), Turn::Later, "one of two has ended");
        seen.leave(&key("job"), token(5));
        assert_eq!(seen.turn(&key("job"), token(6)), Turn::Now);
    }

    #[test]
    fn one_that_waits_is_overtaken_by_a_newer_one() {
        let (mut seen, now) = (Seen::new(DAY, 10), Instant::now());
        for value in [5, 6, 7] {
            assert_eq!(seen.enter(&key("job"), token(value), now), Entry::Entered);
        }
        assert_eq!(seen.turn(&key("job"), token(6)), Turn::Stale(token(7)));
    }

    #[test]
    fn a_full_table_forgets_what_is_old_and_refuses_before_it_forgets_more() {
        let (mut seen, start) = (Seen::new(DAY, 2), Instant::now());
        assert_eq!(seen.enter(&key("at-work"), token(9), start), Entry::Entered);
        assert_eq!(seen.enter(&key("idle"), token(9), start), Entry::Entered);
        seen.leave(&key("idle"), token(9));
        assert_eq!(seen.enter(&key("new"), token(1), start + DAY / 2), Entry::Full);
        assert_eq!(seen.enter(&key("idle"), token(1), start + DAY / 2), Entry::Stale(token(9)));
        assert_eq!(seen.enter(&key("new"), token(1), start + DAY), Entry::Entered);
        assert_eq!(seen.enter(&key("at-work"), token(1), start + DAY * 9), Entry::Stale(token(9)));
    }
}
