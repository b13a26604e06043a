//! What follows when an attempt ends: the run ends with it, or is tried again.

use crate::job::Retry;
use crate::run::{Reason, State};
use std::time::Duration;

/// How an attempt ended, as its worker reported it or as the dispatcher found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The work succeeded.
    Succeeded,
    /// The work failed.
    Failed(Reason),
    /// It ran longer than the job allows.
    TimedOut,
    /// It was cancelled, for this reason.
    Cancelled(Reason),
    /// Its worker was given up for dead.
    Lost,
    /// The living worker says that it never got it.
    Undelivered,
}

/// What the earlier attempts of a run spent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Times that the run was handed out and never arrived.
    pub undelivered: u16,
    /// Attempts whose worker was lost.
    pub lost: u16,
    /// Attempts that ended failed or timed out.
    pub failed: u16,
}

/// What becomes of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It ends in this terminal state.
    End(State, Option<Reason>),
    /// It waits that long and is handed out again.
    Retry {
        /// Counted from now.
        after: Duration,
        /// What is spent from then on.
        spent: Spent,
    },
}

/// The undelivered hand-out that ends the run.
pub const UNDELIVERED_MAX: u16 = 10;

/// Decides what follows from an attempt's outcome, given what the earlier ones spent.
///
/// `max_attempts` counts failures and time-outs only; a loss is no fault of the work and counts against
/// `max_lost`; an undelivered hand-out counts against neither.
pub fn conclude(outcome: Outcome, spent: Spent, retry: &Retry) -> Verdict {
    match outcome {
        Outcome::Succeeded => Verdict::End(State::Succeeded, None),
        Outcome::Cancelled(reason) => Verdict::End(State::Cancelled, Some(reason)),
        Outcome::Failed(reason) => failed(State::Failed, reason, spent, retry),
        Outcome::TimedOut => failed(State::TimedOut, Reason::MaxRuntime, spent, retry),
        Outcome::Lost => {
            let spent = Spent { lost: spent.lost.saturating_add(1), ..spent };
            if spent.lost >= retry.max_lost {
                Verdict::End(State::Lost, Some(Reason::WorkerLost))
            } else {
                Verdict::Retry { after: Duration::ZERO, spent }
            }
        }
        Outcome::Undelivered => {
            let spent = Spent { undelivered: spent.undelivered.saturating_add(1), ..spent };
            if spent.undelivered >= UNDELIVERED_MAX {
                Verdict::End(State::Failed, Some(Reason::Undeliverable))
            } else {
                Verdict::Retry { after: Duration::ZERO, spent }
            }
        }
    }
}

fn failed(state: State, reason: Reason, spent: Spent, retry: &Retry) -> Verdict {
    let spent = Spent { failed: spent.failed.saturating_add(1), ..spent };
    if spent.failed >= retry.max_attempts {
        Verdict::End(state, Some(reason))
    } else {
        Verdict::Retry { after: retry.backoff_after(u32::from(spent.failed)), spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY: Retry = Retry {
        max_attempts: 2,
        backoff: Duration::from_secs(10),
        backoff_max: Duration::from_secs(60),
        max_lost: 2,
    };

    #[test]
    fn a_loss_spends_no_attempt() {
        let verdict = conclude(Outcome::Lost, Spent { failed: 1, ..Spent::default() }, &RETRY);
        let spent = Spent { failed: 1, lost: 1, undelivered: 0 };
        assert_eq!(verdict, Verdict::Retry { after: Duration::ZERO, spent });
    }

    #[test]
    fn a_run_that_kills_its_workers_ends_as_lost() {
        let spent = Spent { lost: 1, ..Spent::default() };
        assert_eq!(
            conclude(Outcome::Lost, spent, &RETRY),
            Verdict::End(State::Lost, Some(Reason::WorkerLost))
        );
    }

    #[test]
    fn the_last_allowed_failure_ends_the_run_with_its_own_state() {
        let first = conclude(Outcome::TimedOut, Spent::default(), &RETRY);
        let Verdict::Retry { after, spent } = first else { panic!("one attempt is left, got {first:?}") };
        assert_eq!(after, Duration::from_secs(10));
        assert_eq!(
            conclude(Outcome::TimedOut, spent, &RETRY),
            Verdict::End(State::TimedOut, Some(Reason::MaxRuntime))
        );
    }

    #[test]
    fn undelivered_hand_outs_end_the_tenth_time() {
        let mut spent = Spent::default();
        for _ in 1..UNDELIVERED_MAX {
            match conclude(Outcome::Undelivered, spent, &RETRY) {
                Verdict::Retry { spent: next, .. } => spent = next,
                end @ Verdict::End(..) => panic!("ended early: {end:?}"),
            }
        }
        assert_eq!(spent.failed, 0);
        assert_eq!(
            conclude(Outcome::Undelivered, spent, &RETRY),
            Verdict::End(State::Failed, Some(Reason::Undeliverable))
        );
    }

    #[test]
    fn cancelled_is_never_retried() {
        assert_eq!(
            conclude(Outcome::Cancelled(Reason::Requested), Spent::default(), &RETRY),
            Verdict::End(State::Cancelled, Some(Reason::Requested))
        );
    }
}
