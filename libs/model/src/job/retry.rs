//! What becomes of attempts that fail or are lost, as a job's owner chose it. What follows from it for one attempt is
//! decided in [`crate::attempt`].

use super::{defaults, millis};
use crate::policy::named;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

named! {
    /// An end of an attempt that another one may follow.
    Retried {
        /// The work ran and failed.
        Failed = "FAILED",
        /// The worker could not start the work.
        NotStarted = "NOT_STARTED",
        /// It ran longer than the job allows.
        TimedOut = "TIMED_OUT",
        /// Its worker was given up for dead.
        Lost = "LOST",
    }
}

/// What becomes of attempts that fail or are lost.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Attempts that may end failed or timed out before the run does; a lost one does not count.
    pub max_attempts: u16,
    /// The wait before the second attempt; doubled for each further one.
    #[serde(with = "millis")]
    pub backoff: Duration,
    /// The longest wait.
    #[serde(with = "millis")]
    pub backoff_max: Duration,
    /// Each wait is shortened by up to this share of it, in percent, so that what failed together is not tried together.
    #[serde(default = "defaults::retry_jitter_percent")]
    pub jitter_percent: u8,
    /// The loss that ends the run: a run that kills its workers may not go on for ever.
    pub max_lost: u16,
    /// The ends of attempts that another attempt follows, as long as one is left.
    #[serde(default = "every")]
    pub outcomes: BTreeSet<Retried>,
    /// Exit statuses of a process, and statuses of an HTTP answer, with which a failure ends the run at once.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub final_statuses: BTreeSet<u16>,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            max_attempts: defaults::MAX_ATTEMPTS,
            backoff: defaults::BACKOFF,
            backoff_max: defaults::BACKOFF_MAX,
            jitter_percent: defaults::RETRY_JITTER_PERCENT,
            max_lost: defaults::MAX_LOST,
            outcomes: every(),
            final_statuses: BTreeSet::new(),
        }
    }
}

impl Retry {
    /// The longest wait after the `failed`-th failed attempt, doubled each time and capped.
    pub fn backoff_after(&self, failed: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failed.saturating_sub(1));
        self.backoff.saturating_mul(factor).min(self.backoff_max)
    }

    /// The wait after the `failed`-th failed attempt of a run whose waits are shortened by `spread` of 65,536 parts of
    /// the jitter. Whole milliseconds, rounded up.
    pub fn wait_after(&self, failed: u32, spread: u16) -> Duration {
        let longest = self.backoff_after(failed).as_millis();
        let shortened = longest * u128::from(self.jitter_percent) * u128::from(spread) / (100 * 65_536);
        Duration::from_millis(u64::try_from(longest - shortened.min(longest)).unwrap_or(u64::MAX))
    }
}

/// Every end that another attempt may follow: the default.
pub fn every() -> BTreeSet<Retried> {
    Retried::ALL.iter().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest_and_are_shortened_by_no_more_than_the_jitter() {
        let retry = Retry {
            backoff: Duration::from_secs(10),
            backoff_max: Duration::from_secs(60),
            jitter_percent: 20,
            ..Retry::default()
        };
        for (failed, longest, shortest) in [(1, 10_000, 8_000), (2, 20_000, 16_000), (4, 60_000, 48_000)] {
            assert_eq!(retry.wait_after(failed, 0), Duration::from_millis(longest), "{failed}");
            let least = retry.wait_after(failed, u16::MAX);
            assert!(least.abs_diff(Duration::from_millis(shortest)) <= Duration::from_millis(1), "{least:?}");
        }
        let even = Retry { jitter_percent: 0, ..retry.clone() };
        assert_eq!(even.wait_after(2, u16::MAX), Duration::from_secs(20));
        let whole = Retry { jitter_percent: 100, ..retry };
        assert!(whole.wait_after(1, u16::MAX) < Duration::from_millis(2));
    }

    #[test]
    fn the_longest_durations_are_no_trouble() {
        let longest = crate::validate::limits::DURATION_MAX;
        let retry = Retry { backoff: longest, backoff_max: longest, ..Retry::default() };
        assert_eq!(retry.wait_after(u32::MAX, 0), longest);
    }

    #[test]
    fn what_an_older_release_stored_is_read_with_defaults() {
        let stored = r#"{"max_attempts": 3, "backoff": 10000, "backoff_max": 600000, "max_lost": 3}"#;
        let read: Retry = serde_json::from_str(stored).expect("read");
        assert_eq!(read, Retry { max_attempts: 3, ..Retry::default() });
    }
}
