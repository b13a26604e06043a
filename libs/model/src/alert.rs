//! The dead-man's switch as a pure judgement: was this occurrence's success there in time, and if not, why.

use crate::policy::named;
use crate::run::Phase;
use chrono::{DateTime, Utc};

named! {
    /// What an alert is about.
    Kind {
        /// An occurrence had no success by its deadline.
        NoSuccess = "NO_SUCCESS",
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
    }
}

/// What the ledger shows of an occurrence at the moment of judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Where the run is; none when there is no row.
    pub phase: Option<Phase>,
    /// When it ended, if it did.
    pub finished_at: Option<DateTime<Utc>>,
}

/// Judges one occurrence: none when a success was recorded by `deadline`, else the cause.
pub fn judge(seen: Seen, deadline: DateTime<Utc>) -> Option<Cause> {
    Some(match seen.phase {
        None => Cause::NeverPlanned,
        Some(Phase::Succeeded) if seen.finished_at.is_some_and(|at| at <= deadline) => return None,
        Some(Phase::Succeeded) => Cause::SucceededLate,
        Some(Phase::Planned | Phase::Waiting) => Cause::Waiting,
        Some(Phase::Running) => Cause::Running,
        Some(Phase::Retrying) => Cause::Retrying,
        Some(Phase::Failed) => Cause::Failed,
        Some(Phase::TimedOut) => Cause::TimedOut,
        Some(Phase::Lost) => Cause::Lost,
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

    #[test]
    fn success_by_the_deadline_satisfies_and_a_later_one_does_not() {
        let seen = |finished| Seen { phase: Some(Phase::Succeeded), finished_at: Some(at(finished)) };
        assert_eq!(judge(seen(100), at(100)), None);
        assert_eq!(judge(seen(101), at(100)), Some(Cause::SucceededLate));
    }

    #[test]
    fn a_missing_row_is_an_alert_not_a_silence() {
        assert_eq!(judge(Seen { phase: None, finished_at: None }, at(100)), Some(Cause::NeverPlanned));
    }

    #[test]
    fn every_other_phase_is_named() {
        for phase in Phase::ALL.iter().filter(|phase| **phase != Phase::Succeeded) {
            assert!(judge(Seen { phase: Some(*phase), finished_at: None }, at(100)).is_some(), "{phase}");
        }
    }
}
