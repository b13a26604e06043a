//! Why an occurrence was never planned, from when leaderships were at work.
//!
//! Pure. What the evidence does not show is `UNKNOWN`, never guessed.

use chrono::{DateTime, Utc};
use model::run::MisfireCause;
use store::term::Worked;

/// The leaderships around an outage.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// When each was at work, the present one among them.
    pub worked: &'a [Worked],
    /// The present leadership.
    pub revision: i64,
}

impl Evidence<'_> {
    /// Why an occurrence is not planned that could have been, in time, from `from` through `through`.
    pub fn cause(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> MisfireCause {
        if self.somebody_worked(from, through) {
            return MisfireCause::Unknown;
        }
        let present = self.worked.iter().find(|worked| worked.revision == self.revision);
        match present {
            // It led all the time and finished no cycle: it could not write.
            Some(present) if present.began_at <= from => MisfireCause::Database,
            _ => MisfireCause::NoTicker,
        }
    }

    /// Whether a cycle was finished from `from` through `through`, as far as the marks say.
    pub fn somebody_worked(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> bool {
        self.worked
            .iter()
            .any(|worked| worked.last_cycle_at.is_some_and(|last| worked.began_at <= through && last >= from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(n: i64) -> DateTime<Utc> {
        DateTime::from_timestamp(1_795_942_800 + n, 0).expect("in range")
    }

    fn worked(revision: i64, began: i64, last_cycle: Option<i64>) -> Worked {
        Worked { revision, began_at: second(began), last_cycle_at: last_cycle.map(second) }
    }

    fn cause(worked: &[Worked], from: i64, through: i64) -> MisfireCause {
        Evidence { worked, revision: 9 }.cause(second(from), second(through))
    }

    #[test]
    fn a_gap_between_leaderships_is_the_want_of_a_ticker() {
        let terms = [worked(7, 0, Some(100)), worked(9, 4_000, None)];
        assert_eq!(cause(&terms, 101, 200), MisfireCause::NoTicker);
        assert_eq!(cause(&terms, 3_900, 4_001), MisfireCause::NoTicker, "the successor had just begun");
        assert_eq!(cause(&terms, 90, 200), MisfireCause::Unknown, "the predecessor could have");
        assert_eq!(cause(&[], 0, 1), MisfireCause::NoTicker);
    }

    #[test]
    fn a_leader_that_could_not_write_lacked_the_database() {
        let terms = [worked(9, 0, Some(100))];
        assert_eq!(cause(&terms, 101, 3_000), MisfireCause::Database);
        assert_eq!(cause(&terms, 50, 3_000), MisfireCause::Unknown);
    }
}
