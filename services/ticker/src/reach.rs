//! Whether the database can be reached, as this process finds when it tries: evidence for why something was missed.
//!
//! Pure but for the lock. A standing jump of the clock is no outage: only failed tries make one.

use chrono::{DateTime, Utc};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Outages that are remembered.
const KEPT_MAX: usize = 64;

/// A time, by the cell's clock, in which no try to reach the database succeeded, and one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// The last success before it.
    pub from: DateTime<Utc>,
    /// The first success after it.
    pub through: DateTime<Utc>,
}

/// What this process knows; clones share it.
#[derive(Debug, Clone, Default)]
pub struct Reach(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    seen: Option<DateTime<Utc>>,
    failed: bool,
    outages: VecDeque<Outage>,
}

impl Reach {
    /// A look at the cell's clock succeeded, and showed `now`.
    pub fn succeeded(&self, now: DateTime<Utc>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = state.seen.replace(now);
        if !std::mem::take(&mut state.failed) {
            return;
        }
        if let Some(from) = seen.filter(|from| *from < now) {
            if state.outages.len() == KEPT_MAX {
                state.outages.pop_front();
            }
            state.outages.push_back(Outage { from, through: now });
        }
    }

    /// A look at the cell's clock failed.
    pub fn failed(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).failed = true;
    }

    /// The latest outages, in order.
    pub fn outages(&self) -> Vec<Outage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).outages.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::second;

    #[test]
    fn only_a_failed_try_between_two_good_ones_is_an_outage() {
        let reach = Reach::default();
        reach.failed();
        reach.succeeded(second(0)); // nothing is known of before
        reach.succeeded(second(3_600)); // the clock jumped
        reach.failed();
        reach.failed();
        reach.succeeded(second(3_700));
        reach.succeeded(second(3_701));
        assert_eq!(reach.outages(), [Outage { from: second(3_600), through: second(3_700) }]);
    }
}
