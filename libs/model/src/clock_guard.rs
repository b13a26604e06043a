//! The guard against clocks that jump: the database's clock decides when runs are due, and this machine's monotonic
//! one says whether it can be believed.
//!
//! Pure: both readings are arguments. Only differences between two looks are compared, so that a constant offset, or
//! two clocks that drift apart slowly, mean nothing.

use chrono::{DateTime, TimeDelta, Utc};
use std::time::{Duration, Instant};

/// How long the clocks must agree after a jump before they are believed again.
const AGREEMENT: Duration = Duration::from_secs(10);

/// What a look at the clocks says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// They agree.
    Steady,
    /// The database's clock jumped by this since the last look: nothing may be decided by it.
    Jumped(TimeDelta),
    /// They agree, but not for long enough since a jump.
    Settling,
}

/// Compares the clocks, look by look.
#[derive(Debug, Clone)]
pub struct Guard {
    limit: Option<TimeDelta>,
    last: Option<(DateTime<Utc>, Instant)>,
    jumped: Option<Instant>,
}

impl Guard {
    /// A guard that tolerates `limit` from one look to the next; none tolerates everything.
    pub fn new(limit: Option<Duration>) -> Self {
        let limit = limit.map(|limit| TimeDelta::from_std(limit).unwrap_or(TimeDelta::MAX));
        Self { limit, last: None, jumped: None }
    }

    /// The latest that the database's clock may show at `now` without having jumped since the last look; none before the
    /// first look, or when everything is tolerated.
    pub fn latest(&self, now: Instant) -> Option<DateTime<Utc>> {
        let (database, looked) = self.last?;
        let passed = TimeDelta::from_std(now.saturating_duration_since(looked)).ok()?;
        database.checked_add_signed(passed)?.checked_add_signed(self.limit?)
    }

    /// Looks: the database's clock reads `database` at the moment `monotonic`.
    pub fn look(&mut self, database: DateTime<Utc>, monotonic: Instant) -> Verdict {
        let last = self.last.replace((database, monotonic));
        let (Some(limit), Some((database_before, monotonic_before))) = (self.limit, last) else {
            return Verdict::Steady;
        };
        let passed = monotonic.saturating_duration_since(monotonic_before);
        let passed = TimeDelta::from_std(passed).unwrap_or(TimeDelta::MAX);
        let jump = (database - database_before).checked_sub(&passed).unwrap_or(TimeDelta::MAX);
        if jump.abs() > limit {
            self.jumped = Some(monotonic);
            return Verdict::Jumped(jump);
        }
        match self.jumped {
            Some(at) if monotonic.saturating_duration_since(at) < AGREEMENT => Verdict::Settling,
            _ => {
                self.jumped = None;
                Verdict::Steady
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn second(n: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + n, 0).expect("in range")
    }

    #[test]
    fn clocks_that_advance_alike_are_steady_whatever_their_offset() {
        let (mut guard, start) = (Guard::new(Some(LIMIT)), Instant::now());
        for n in 0..30_u32 {
            assert_eq!(guard.look(second(n.into()), start + Duration::from_secs(n.into())), Verdict::Steady);
        }
        // A frozen process finds both advanced.
        assert_eq!(guard.look(second(1_000), start + Duration::from_secs(1_000)), Verdict::Steady);
    }

    #[test]
    fn a_jump_either_way_stops_and_ten_seconds_of_agreement_go_on() {
        for jump in [3_600, -3_600, 6, -6] {
            let (mut guard, start) = (Guard::new(Some(LIMIT)), Instant::now());
            let at = |n: u64| start + Duration::from_secs(n);
            assert_eq!(guard.look(second(0), at(0)), Verdict::Steady);
            assert_eq!(guard.look(second(1 + jump), at(1)), Verdict::Jumped(TimeDelta::seconds(jump)));
            assert_eq!(guard.look(second(2 + jump), at(2)), Verdict::Settling);
            assert_eq!(guard.look(second(10 + jump), at(10)), Verdict::Settling);
            assert_eq!(guard.look(second(11 + jump), at(11)), Verdict::Steady);
            assert_eq!(guard.look(second(12 + jump), at(12)), Verdict::Steady);
        }
    }

    #[test]
    fn a_second_jump_counts_anew() {
        let (mut guard, start) = (Guard::new(Some(LIMIT)), Instant::now());
        let at = |n: u64| start + Duration::from_secs(n);
        assert_eq!(guard.look(second(0), at(0)), Verdict::Steady);
        assert!(matches!(guard.look(second(101), at(1)), Verdict::Jumped(_)));
        assert!(matches!(guard.look(second(9), at(9)), Verdict::Jumped(_)));
        assert_eq!(guard.look(second(18), at(18)), Verdict::Settling);
        assert_eq!(guard.look(second(19), at(19)), Verdict::Steady);
    }

    #[test]
    fn up_to_the_limit_and_without_one_nothing_stops() {
        let (mut guard, start) = (Guard::new(Some(LIMIT)), Instant::now());
        assert_eq!(guard.look(second(0), start), Verdict::Steady);
        assert_eq!(guard.look(second(5), start), Verdict::Steady);
        let mut blind = Guard::new(None);
        assert_eq!(blind.look(second(0), start), Verdict::Steady);
        assert_eq!(blind.look(second(3_600), start), Verdict::Steady);
    }
}
