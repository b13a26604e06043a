//! Why an occurrence was never planned or its run not handed out, from who was at work when.
//!
//! Pure. What the evidence does not show is `UNKNOWN`, never guessed.

use crate::reach::Outage;
use chrono::{DateTime, TimeDelta, Utc};
use model::run::MisfireCause;
use store::misfire::Hands;
use store::term::Worked;

/// How far the ends of an outage may lie inside of what it explains: everybody looks once a second.
const SLACK: TimeDelta = TimeDelta::seconds(5);

/// What is known of the time around an outage.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// When each leadership was at work, the present one among them.
    pub worked: &'a [Worked],
    /// The present leadership.
    pub revision: i64,
    /// When this process could not reach the database.
    pub unreachable: &'a [Outage],
}

impl Evidence<'_> {
    /// Why an occurrence is not planned that could have been, in time, from `from` through `through`.
    pub fn cause(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> MisfireCause {
        if self.was_unreachable(from, through) {
            return MisfireCause::Database;
        }
        if self.somebody_worked(from, through) {
            return MisfireCause::Unknown;
        }
        // It led all the time and finished no cycle: it could not write.
        if self.led_since(from) { MisfireCause::Database } else { MisfireCause::NoTicker }
    }

    /// Why a run was not handed out that could have been from `from` through `through`, when `hands` were there.
    pub fn cause_of_waiting(
        &self,
        from: DateTime<Utc>,
        through: DateTime<Utc>,
        hands: Hands,
    ) -> MisfireCause {
        if from > through {
            return MisfireCause::Paused; // only what a pause held back is due again after that
        }
        let idle = || self.led_since(from) && !self.somebody_worked(from, through);
        match hands {
            Hands { renewed: false, .. } if self.was_unreachable(from, through) => MisfireCause::Database,
            // Those who planned and those who hand out lived, and neither could write.
            Hands { renewed: false, silent: true, .. } if idle() => MisfireCause::Database,
            Hands { renewed: false, silent: true, .. } => MisfireCause::Unknown,
            Hands { renewed: false, silent: false, .. } => MisfireCause::NoDispatcher,
            Hands { worker: false, .. } => MisfireCause::NoWorker,
            Hands { held: true, .. } => MisfireCause::Limit,
            Hands { .. } => MisfireCause::Unknown,
        }
    }

    /// Whether one cause explains all of the time from `from` through `through`, whatever part of it is looked at.
    pub fn is_even(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> bool {
        let touches = |outage: &Outage| outage.from <= through && outage.through >= from;
        self.was_unreachable(from, through)
            || !(self.somebody_worked(from, through) || self.unreachable.iter().any(touches))
    }

    fn was_unreachable(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> bool {
        self.unreachable.iter().any(|outage| {
            outage.from <= from + SLACK && through <= outage.through + SLACK && from <= outage.through
        })
    }

    fn led_since(&self, from: DateTime<Utc>) -> bool {
        let present = self.worked.iter().find(|worked| worked.revision == self.revision);
        present.is_some_and(|present| present.began_at <= from)
    }

    /// Whether a cycle was finished from `from` through `through`, as far as the marks say.
    fn somebody_worked(&self, from: DateTime<Utc>, through: DateTime<Utc>) -> bool {
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
        Evidence { worked, revision: 9, unreachable: &[] }.cause(second(from), second(through))
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

    #[test]
    fn what_failed_to_reach_the_database_is_its_outage_whoever_leads_now() {
        let terms = [worked(7, 0, Some(100)), worked(9, 4_000, Some(4_001))];
        let unreachable = [Outage { from: second(100), through: second(3_998) }];
        let evidence = Evidence { worked: &terms, revision: 9, unreachable: &unreachable };
        assert_eq!(evidence.cause(second(160), second(230)), MisfireCause::Database);
        assert_eq!(evidence.cause(second(3_000), second(4_001)), MisfireCause::Database);
        assert_eq!(evidence.cause(second(90), second(230)), MisfireCause::Unknown, "10 s before it");
        assert!(
            evidence.is_even(second(200), second(3_000)) && !evidence.is_even(second(3_000), second(5_000))
        );
    }

    #[test]
    fn a_run_that_a_pause_held_back_lacked_nothing_else() {
        let nobody = Hands { renewed: false, silent: false, worker: false, held: false };
        let evidence = Evidence { worked: &[], revision: 9, unreachable: &[] };
        assert_eq!(evidence.cause_of_waiting(second(500), second(60), nobody), MisfireCause::Paused);
    }

    #[test]
    fn a_run_that_waited_is_explained_by_the_first_hand_that_was_missing() {
        let hands = |renewed, silent, worker| Hands { renewed, silent, worker, held: false };
        let held = |worker| Hands { held: true, ..hands(true, false, worker) };
        let unreachable = [Outage { from: second(100), through: second(3_998) }];
        // The leadership goes on; its last cycle was before the outage.
        let goes_on = [worked(9, 0, Some(100))];
        let began = [worked(9, 4_000, None)];
        for (worked, unreachable, hands, expected) in [
            (&goes_on, &unreachable[..], hands(false, true, true), MisfireCause::Database),
            (&goes_on, &unreachable[..], hands(true, false, true), MisfireCause::Unknown),
            (&goes_on, &[][..], hands(false, true, true), MisfireCause::Database),
            (&goes_on, &[][..], hands(false, false, true), MisfireCause::NoDispatcher),
            (&began, &[][..], hands(false, true, true), MisfireCause::Unknown),
            (&began, &[][..], hands(true, false, false), MisfireCause::NoWorker),
            (&began, &[][..], held(false), MisfireCause::NoWorker),
            (&began, &[][..], held(true), MisfireCause::Limit),
        ] {
            let evidence = Evidence { worked, revision: 9, unreachable };
            assert_eq!(evidence.cause_of_waiting(second(200), second(210), hands), expected, "{hands:?}");
        }
    }
}
