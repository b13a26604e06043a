//! The dead-man's switch as a pure judgement: was this occurrence's success there in time, and if not, why. What else
//! owners want to be told of is in [`on`], what becomes of an alert in [`life`].
//!
//! Invariant: exactly one of succeeded in time, withdrawn and missed. Whether anybody waits for the success, by the
//! definitions in force, is decided before; here only what the ledger shows counts.

use crate::policy::named;
use crate::run::{Phase, Reason};
use chrono::{DateTime, Utc};

pub mod life;
pub mod on;

named! {
    /// What a job's alert is about.
    Kind {
        /// An occurrence had no success by its deadline.
        NoSuccess = "NO_SUCCESS",
        /// A run failed, timed out or was lost.
        Failed = "FAILED",
        /// So many runs in a row did.
        FailuresInRow = "FAILURES_IN_ROW",
        /// An attempt takes longer than its owner expects.
        Runtime = "RUNTIME",
        /// An occurrence was skipped, because an earlier run was open.
        SkippedOverlap = "SKIPPED_OVERLAP",
    }
}

named! {
    /// Why no success was there, as the ledger shows it.
    Cause {
        /// The ledger has no row: no ticker planned it.
        NeverPlanned = "NEVER_PLANNED",
        /// Planned or due, and no worker took it.
        Waiting = "WAITING",
        /// A worker still has it.
        Running = "RUNNING",
        /// Between two attempts.
        Retrying = "RETRYING",
        /// It succeeded, too late.
        SucceededLate = "SUCCEEDED_LATE",
        /// It failed.
        Failed = "FAILED",
        /// It exceeded its maximum runtime.
        TimedOut = "TIMED_OUT",
        /// Its workers were lost.
        Lost = "LOST",
        /// It was cancelled.
        Cancelled = "CANCELLED",
        /// It was skipped: missed, superseded or overlapping.
        Skipped = "SKIPPED",
        /// It takes longer than its owner expects, or took.
        Slow = "SLOW",
        /// The ledger shows something that this version can't read.
        Unreadable = "UNREADABLE",
    }
}

/// What the ledger shows of an occurrence at the moment of judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Where the run is; none when there is no row.
    pub phase: Option<Phase>,
    /// Why it ended as it did.
    pub reason: Option<Reason>,
    /// When it ended, if it did.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Seen {
    /// There is no row.
    pub const NOTHING: Self = Self { phase: None, reason: None, finished_at: None };
}

/// What became of an occurrence by its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// A success was recorded by the deadline.
    InTime,
    /// Its run was ended on purpose, with the job's pause or deletion: nobody waits for it.
    Withdrawn,
    /// There was no success, and why.
    Missed(Cause),
}

/// Judges one occurrence that was to succeed by `deadline`.
pub fn judge(seen: Seen, deadline: DateTime<Utc>) -> Judgement {
    Judgement::Missed(match seen.phase {
        None => Cause::NeverPlanned,
        Some(Phase::Succeeded) if seen.finished_at.is_some_and(|at| at <= deadline) => {
            return Judgement::InTime;
        }
        Some(Phase::Succeeded) => Cause::SucceededLate,
        Some(Phase::Planned | Phase::Waiting) => Cause::Waiting,
        Some(Phase::Running) => Cause::Running,
        Some(Phase::Retrying) => Cause::Retrying,
        Some(Phase::Failed) => Cause::Failed,
        Some(Phase::TimedOut) => Cause::TimedOut,
        Some(Phase::Lost) => Cause::Lost,
        Some(Phase::Cancelled) if matches!(seen.reason, Some(Reason::Paused | Reason::Deleted)) => {
            return Judgement::Withdrawn;
        }
        Some(Phase::Cancelled) => Cause::Cancelled,
        Some(Phase::Skipped) => Cause::Skipped,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(second, 0).expect("in range")
    }

    fn ended(phase: Phase, reason: Option<Reason>, finished: i64) -> Seen {
        Seen { phase: Some(phase), reason, finished_at: Some(at(finished)) }
    }

    #[test]
    fn success_by_the_deadline_satisfies_and_a_later_one_does_not() {
        let succeeded = |finished| judge(ended(Phase::Succeeded, None, finished), at(100));
        assert_eq!(succeeded(100), Judgement::InTime);
        assert_eq!(succeeded(101), Judgement::Missed(Cause::SucceededLate));
    }

    #[test]
    fn a_missing_row_is_an_alert_not_a_silence() {
        assert_eq!(judge(Seen::NOTHING, at(100)), Judgement::Missed(Cause::NeverPlanned));
    }

    #[test]
    fn every_other_phase_is_named() {
        for phase in Phase::ALL.iter().filter(|phase| **phase != Phase::Succeeded) {
            let seen = Seen { phase: Some(*phase), ..Seen::NOTHING };
            assert!(matches!(judge(seen, at(100)), Judgement::Missed(_)), "{phase}");
        }
    }

    #[test]
    fn of_all_that_ends_a_run_only_pause_and_deletion_withdraw_it() {
        for reason in Reason::ALL {
            let judged = judge(ended(Phase::Cancelled, Some(*reason), 50), at(100));
            let expected = match reason {
                Reason::Paused | Reason::Deleted => Judgement::Withdrawn,
                _ => Judgement::Missed(Cause::Cancelled),
            };
            assert_eq!(judged, expected, "{reason}");
        }
    }
}
