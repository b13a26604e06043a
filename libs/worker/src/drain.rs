//! The way out of a worker that was asked to end: until when its runs may go on, and when it leaves without them. Pure:
//! time is an argument. What is done about it is the keeper's business.

use crate::clock::Moment;
use std::time::Duration;

/// What is left at the end for the last completions to be acknowledged.
const LAST_REPORTS: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drain {
    stop_at: Moment,
    stopped: bool,
    end_at: Moment,
}

impl Drain {
    /// Of a worker that has `limit` from `now` on, and whose runs have `kill_grace` of that to stop.
    pub(crate) fn begin(now: Moment, limit: Duration, kill_grace: Duration) -> Self {
        let stop_at = now + limit.saturating_sub(kill_grace + LAST_REPORTS);
        Self { stop_at, stopped: false, end_at: now + limit }
    }

    /// Whether what still runs is to be stopped now; said once.
    pub(crate) fn stops(&mut self, now: Moment) -> bool {
        let stops = !self.stopped && self.stop_at <= now;
        self.stopped |= stops;
        stops
    }

    /// Whether the worker leaves, whatever it has in hand.
    pub(crate) fn is_over(self, now: Moment) -> bool {
        self.end_at <= now
    }

    /// When its next stage comes.
    pub(crate) const fn wakes_at(self) -> Moment {
        if self.stopped { self.end_at } else { self.stop_at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_stopped_once_with_their_grace_and_a_second_left() {
        let mut drain = Drain::begin(Moment::at(100), Duration::from_secs(30), Duration::from_secs(4));
        assert_eq!((drain.wakes_at(), drain.stops(Moment::at(124))), (Moment::at(125), false));
        assert!(drain.stops(Moment::at(125)) && !drain.stops(Moment::at(126)));
        assert_eq!((drain.wakes_at(), drain.is_over(Moment::at(129))), (Moment::at(130), false));
        assert!(drain.is_over(Moment::at(130)));
    }

    #[test]
    fn a_limit_shorter_than_the_grace_stops_at_once() {
        let mut drain = Drain::begin(Moment::at(100), Duration::from_secs(2), Duration::from_secs(4));
        assert!(drain.stops(Moment::at(100)) && drain.is_over(Moment::at(102)));
    }
}
