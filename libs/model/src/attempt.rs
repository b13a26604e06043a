//! What follows when an attempt ends: the run ends with it, or is tried again.

use crate::ids::RunKey;
use crate::job::{Retried, Retry};
use crate::run::{Reason, State};
use sha2::{Digest, Sha256};
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

/// The end of one attempt, with what decides whether another one follows, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// How it ended.
    pub outcome: Outcome,
    /// The exit status of a process, or the status of an HTTP answer, if there was one.
    pub status: Option<i32>,
    /// How much of the jitter the wait is shortened by, in parts of 65,536: see [`spread`].
    pub spread: u16,
}

impl Ended {
    /// The kind of end that a policy may name; none of an end that no attempt follows, or always one.
    fn retried(&self) -> Option<Retried> {
        match self.outcome {
            Outcome::Failed(Reason::NotStarted) => Some(Retried::NotStarted),
            Outcome::Failed(_) => Some(Retried::Failed),
            Outcome::TimedOut => Some(Retried::TimedOut),
            Outcome::Lost => Some(Retried::Lost),
            Outcome::Succeeded | Outcome::Cancelled(_) | Outcome::Undelivered => None,
        }
    }

    /// True when `retry` lets no attempt follow, however many are left.
    fn is_final(&self, retry: &Retry) -> bool {
        let status = self.status.and_then(|status| u16::try_from(status).ok());
        let by_status = matches!(self.outcome, Outcome::Failed(_))
            && status.is_some_and(|status| retry.final_statuses.contains(&status));
        by_status || self.retried().is_some_and(|kind| !retry.outcomes.contains(&kind))
    }
}

/// Where in its jitter the wait after this attempt falls: the same for whoever works it out, and independent of other
/// runs, so that what failed together is spread.
pub fn spread(key: RunKey, attempt: i32) -> u16 {
    let hash = Sha256::new()
        .chain_update(key.job_id.0)
        .chain_update(key.scheduled_for.timestamp_micros().to_be_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    u16::from_be_bytes([hash[0], hash[1]])
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

/// Decides what follows from the end of an attempt, given what the earlier ones spent.
///
/// `max_attempts` counts failures and time-outs only; a loss is no fault of the work and counts against
/// `max_lost`; an undelivered hand-out counts against neither.
pub fn conclude(ended: Ended, spent: Spent, retry: &Retry) -> Verdict {
    match ended.outcome {
        Outcome::Succeeded => Verdict::End(State::Succeeded, None),
        Outcome::Cancelled(reason) => Verdict::End(State::Cancelled, Some(reason)),
        Outcome::Failed(reason) => failed(State::Failed, reason, ended, spent, retry),
        Outcome::TimedOut => failed(State::TimedOut, Reason::MaxRuntime, ended, spent, retry),
        Outcome::Lost => {
            let spent = Spent { lost: spent.lost.saturating_add(1), ..spent };
            if spent.lost >= retry.max_lost || ended.is_final(retry) {
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

fn failed(state: State, reason: Reason, ended: Ended, spent: Spent, retry: &Retry) -> Verdict {
    let spent = Spent { failed: spent.failed.saturating_add(1), ..spent };
    if spent.failed >= retry.max_attempts || ended.is_final(retry) {
        Verdict::End(state, Some(reason))
    } else {
        Verdict::Retry { after: retry.wait_after(u32::from(spent.failed), ended.spread), spent }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::JobId;
    use chrono::DateTime;
    use std::collections::BTreeSet;
    use uuid::Uuid;

    fn retry() -> Retry {
        Retry {
            max_attempts: 2,
            backoff: Duration::from_secs(10),
            backoff_max: Duration::from_secs(60),
            max_lost: 2,
            ..Retry::default()
        }
    }

    fn ended(outcome: Outcome) -> Ended {
        Ended { outcome, status: None, spread: 0 }
    }

    #[test]
    fn a_loss_spends_no_attempt() {
        let verdict = conclude(ended(Outcome::Lost), Spent { failed: 1, ..Spent::default() }, &retry());
        let spent = Spent { failed: 1, lost: 1, undelivered: 0 };
        assert_eq!(verdict, Verdict::Retry { after: Duration::ZERO, spent });
    }

    #[test]
    fn a_run_that_kills_its_workers_ends_as_lost() {
        let spent = Spent { lost: 1, ..Spent::default() };
        assert_eq!(
            conclude(ended(Outcome::Lost), spent, &retry()),
            Verdict::End(State::Lost, Some(Reason::WorkerLost))
        );
    }

    #[test]
    fn the_last_allowed_failure_ends_the_run_with_its_own_state() {
        let first = conclude(ended(Outcome::TimedOut), Spent::default(), &retry());
        let Verdict::Retry { after, spent } = first else { panic!("one attempt is left, got {first:?}") };
        assert_eq!(after, Duration::from_secs(10));
        assert_eq!(
            conclude(ended(Outcome::TimedOut), spent, &retry()),
            Verdict::End(State::TimedOut, Some(Reason::MaxRuntime))
        );
    }

    #[test]
    fn undelivered_hand_outs_end_the_tenth_time() {
        let mut spent = Spent::default();
        for _ in 1..UNDELIVERED_MAX {
            match conclude(ended(Outcome::Undelivered), spent, &retry()) {
                Verdict::Retry { spent: next, .. } => spent = next,
                end @ Verdict::End(..) => panic!("ended early: {end:?}"),
            }
        }
        assert_eq!(spent.failed, 0);
        assert_eq!(
            conclude(ended(Outcome::Undelivered), spent, &retry()),
            Verdict::End(State::Failed, Some(Reason::Undeliverable))
        );
    }

    #[test]
    fn cancelled_is_never_retried() {
        assert_eq!(
            conclude(ended(Outcome::Cancelled(Reason::Requested)), Spent::default(), &retry()),
            Verdict::End(State::Cancelled, Some(Reason::Requested))
        );
    }

    #[test]
    fn each_end_is_tried_again_only_if_the_policy_names_it() {
        let ends = [
            (Outcome::Failed(Reason::WorkFailed), Retried::Failed, State::Failed),
            (Outcome::Failed(Reason::NotStarted), Retried::NotStarted, State::Failed),
            (Outcome::TimedOut, Retried::TimedOut, State::TimedOut),
            (Outcome::Lost, Retried::Lost, State::Lost),
        ];
        for named in Retried::ALL {
            let only = Retry { outcomes: BTreeSet::from([*named]), ..retry() };
            for (outcome, kind, state) in ends {
                match conclude(ended(outcome), Spent::default(), &only) {
                    Verdict::Retry { .. } => assert_eq!(kind, *named, "{outcome:?}"),
                    Verdict::End(end, _) => assert!(kind != *named && end == state, "{outcome:?}: {end}"),
                }
            }
            // That it never arrived is nobody's fault: no policy is asked.
            let undelivered = conclude(ended(Outcome::Undelivered), Spent::default(), &only);
            assert!(matches!(undelivered, Verdict::Retry { .. }), "{undelivered:?}");
        }
    }

    #[test]
    fn a_final_status_ends_the_run_whatever_is_left() {
        let retry = Retry { final_statuses: [2, 422].into(), ..retry() };
        let failed = |status| Ended { status, ..ended(Outcome::Failed(Reason::WorkFailed)) };
        for (status, is_final) in [(Some(2), true), (Some(422), true), (Some(1), false), (None, false)] {
            let verdict = conclude(failed(status), Spent::default(), &retry);
            assert_eq!(matches!(verdict, Verdict::End(State::Failed, _)), is_final, "{status:?}");
        }
        let late = Ended { status: Some(2), ..ended(Outcome::TimedOut) };
        assert!(matches!(conclude(late, Spent::default(), &retry), Verdict::Retry { .. }));
    }

    #[test]
    fn what_fails_together_is_tried_again_apart_and_always_alike() {
        let key = |job| RunKey::new(JobId(Uuid::from_u128(job)), DateTime::UNIX_EPOCH);
        let spreads: BTreeSet<u16> = (0..1_000).map(|job| spread(key(job), 1)).collect();
        assert!(spreads.len() > 950, "{} of 1,000 differ", spreads.len());
        assert!(spreads.first().is_some_and(|least| *least < 1_000));
        assert!(spreads.last().is_some_and(|most| *most > 64_000));
        assert_eq!(spread(key(7), 1), spread(key(7), 1));
        assert_ne!(spread(key(7), 1), spread(key(7), 2));
        let half = Ended { spread: 1 << 15, ..ended(Outcome::Failed(Reason::WorkFailed)) };
        let Verdict::Retry { after, .. } = conclude(half, Spent::default(), &retry()) else {
            panic!("an attempt is left")
        };
        assert_eq!(after, Duration::from_millis(9_500), "ten seconds, less half of ten percent");
    }
}
