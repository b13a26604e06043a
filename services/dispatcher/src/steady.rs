//! Whether the database's clock can be believed: after a jump nothing is claimed, swept, compared or given away until it has
//! been steady for ten seconds.
//!
//! The clock is looked at with each renewal, and again before whatever would follow a jump at once. An attempt's time is
//! its worker's and not the database's, so that a jump ahead moves the deadlines of those that go on.

use crate::shared::Shared;
use chrono::{DateTime, TimeDelta, Utc};
use model::clock_guard::{Guard, Verdict};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{StoreError, clock, run_lease};

/// A look as young as this need not be repeated.
const FRESH: Duration = Duration::from_millis(20);
/// A look that took longer says nothing: the clock may have been read at any moment of it.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Debug)]
pub struct Steadiness(Mutex<State>);

#[derive(Debug)]
struct State {
    guard: Guard,
    /// When, what the clock showed, and whether it was steady.
    last: Option<(Instant, DateTime<Utc>, bool)>,
    /// Jumps ahead whose deadlines are not moved yet, each with an instant in the span that it jumped over.
    owed: Vec<(TimeDelta, DateTime<Utc>)>,
}

impl Steadiness {
    /// Tolerates `limit` from one look to the next; none tolerates everything.
    pub fn new(limit: Option<Duration>) -> Self {
        Self(Mutex::new(State { guard: Guard::new(limit), last: None, owed: Vec::new() }))
    }

    /// The clock read `database` in a question sent at `asked` and answered at `answered`. Whether it is steady.
    pub fn seen(&self, database: DateTime<Utc>, asked: Instant, answered: Instant) -> bool {
        let mut state = self.state();
        if answered.saturating_duration_since(asked) > LOOK_MAX {
            return false;
        }
        let verdict = state.guard.look(database, answered);
        if let Verdict::Jumped(by) = verdict {
            tracing::error!(
                clock.jump_ms = by.num_milliseconds(),
                "The database's clock jumped: nothing is handed out or given up until it has been steady for 10 seconds"
            );
            // What was accepted since the last look, and before the jump, is a little later than that look.
            let before = state.last.map(|(_, before, _)| before + by / 2);
            state.owed.extend(before.filter(|_| by > TimeDelta::zero()).map(|before| (by, before)));
        }
        let steady = verdict == Verdict::Steady;
        if steady && state.last.is_some_and(|(.., before)| !before) {
            tracing::info!("The database's clock is steady again");
        }
        state.last = Some((answered, database, steady));
        steady
    }

    /// What the last look said; false before the first.
    pub fn is_steady(&self) -> bool {
        self.state().last.is_some_and(|(.., steady)| steady)
    }

    /// As [`Guard::latest`].
    pub fn latest(&self, now: Instant) -> Option<DateTime<Utc>> {
        self.state().guard.latest(now)
    }

    fn fresh(&self, now: Instant) -> Option<bool> {
        let (looked, _, steady) = self.state().last?;
        (now.saturating_duration_since(looked) <= FRESH).then_some(steady)
    }

    fn owed(&self) -> Option<(TimeDelta, DateTime<Utc>)> {
        self.state().owed.first().copied()
    }

    fn paid(&self) {
        self.state().owed.remove(0);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the clock now: whether what depends on it may go on.
///
/// # Errors
/// [`StoreError`] when it can't be read.
pub async fn may_go_on(shared: &Shared) -> Result<bool, StoreError> {
    let asked = Instant::now();
    if let Some(steady) = shared.steadiness.fresh(asked) {
        return Ok(steady);
    }
    let now = clock::now(&shared.store).await?;
    Ok(shared.steadiness.seen(now, asked, Instant::now()))
}

/// Moves the deadlines of the attempts that went on through a jump ahead.
///
/// # Errors
/// [`StoreError`]: then it is still owed.
pub async fn settle(shared: &Shared) -> Result<(), StoreError> {
    while let Some((by, before)) = shared.steadiness.owed() {
        let attempts = run_lease::shift_deadlines(&shared.store, shared.id, by, before).await?;
        shared.steadiness.paid();
        tracing::warn!(
            clock.jump_ms = by.num_milliseconds(),
            attempts,
            "Moved the deadlines of attempts by the jump"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Option<Duration> = Some(Duration::from_secs(5));

    fn second(n: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + n, 0).expect("in range")
    }

    #[test]
    fn a_jump_ahead_stops_and_owes_the_deadlines_a_jump_back_only_stops() {
        let (steadiness, start) = (Steadiness::new(LIMIT), Instant::now());
        let at = |n| start + Duration::from_secs(n);
        assert!(!steadiness.is_steady());
        assert!(steadiness.seen(second(0), at(0), at(0)) && steadiness.is_steady());
        assert!(!steadiness.seen(second(3_601), at(1), at(1)));
        assert_eq!(steadiness.owed(), Some((TimeDelta::seconds(3_600), second(1_800))));
        steadiness.paid();
        assert!(!steadiness.seen(second(3_610), at(10), at(10)), "nine seconds of agreement");
        assert!(steadiness.seen(second(3_611), at(11), at(11)));
        assert!(!steadiness.seen(second(12), at(12), at(12)));
        assert_eq!(steadiness.owed(), None);
    }

    #[test]
    fn the_clock_may_be_no_later_than_the_last_look_the_time_since_and_the_tolerance() {
        let (steadiness, start) = (Steadiness::new(LIMIT), Instant::now());
        let at = |n| start + Duration::from_secs(n);
        assert_eq!(steadiness.latest(at(0)), None, "before the first look");
        assert!(steadiness.seen(second(0), at(0), at(0)));
        assert_eq!(steadiness.latest(at(2)), Some(second(7)));
        let careless = Steadiness::new(None);
        assert!(careless.seen(second(0), at(0), at(0)));
        assert_eq!(careless.latest(at(2)), None);
    }

    #[test]
    fn a_look_that_took_long_says_nothing() {
        let (steadiness, start) = (Steadiness::new(LIMIT), Instant::now());
        let at = |n| start + Duration::from_secs(n);
        assert!(steadiness.seen(second(0), at(0), at(0)));
        assert!(!steadiness.seen(second(1), at(1), at(9)));
        assert!(steadiness.seen(second(10), at(10), at(10)), "no jump was seen in between");
    }
}
