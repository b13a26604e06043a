//! How long this worker may work without hearing from its dispatcher. Pure: time is an argument.
//!
//! Invariant: a renewal counts from before the worker asked for it, less the age that the answer names, so that
//! the worker's deadline always lies before the moment from which its runs may be given to another. An answer
//! that arrives after a freeze is as old as its question and extends nothing.

use crate::clock::Moment;
use rpc::v1;
use std::collections::VecDeque;
use std::time::Duration;

/// The most questions that are remembered; the link is given up long before.
const ASKED_MAX: usize = 64;

/// What the dispatcher demands, from its Welcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Between two heartbeats.
    pub heartbeat_interval: Duration,
    /// How long after its dispatcher's last committed renewal the worker may go on.
    pub self_deadline: Duration,
    /// Between asking work to stop and ending it.
    pub kill_grace: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Self {
            heartbeat_interval: Duration::from_secs(3),
            self_deadline: Duration::from_secs(9),
            kill_grace: Duration::from_secs(4),
        }
    }
}

impl Terms {
    /// The terms of a Welcome; what it leaves out has its default.
    pub(crate) fn of(welcome: &v1::Welcome) -> Self {
        let default = Self::default();
        let or = |given: Option<prost_types::Duration>, default| {
            given
                .and_then(|given| Duration::try_from(given).ok())
                .filter(|given| !given.is_zero())
                .unwrap_or(default)
        };
        Self {
            heartbeat_interval: or(welcome.heartbeat_interval, default.heartbeat_interval),
            self_deadline: or(welcome.self_deadline, default.self_deadline),
            kill_grace: or(welcome.kill_grace, default.kill_grace),
        }
    }
}

/// The worker's lease as it knows it.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    pub(crate) terms: Terms,
    /// The end; none before the first grant.
    until: Option<Moment>,
    sequence: i64,
    asked: VecDeque<(i64, Moment)>,
}

impl Lease {
    /// A connection was welcomed; `asked` is from before the Hello was sent. The dispatcher has written the
    /// session's row after that; the first heartbeat's answer corrects the deadline by the age of its own row.
    pub(crate) fn grant(&mut self, terms: Terms, asked: Moment) {
        self.terms = terms;
        self.until = Some(asked + terms.self_deadline);
        self.sequence = 0;
        self.asked.clear();
    }

    /// A heartbeat is about to be sent; its sequence number.
    pub(crate) fn ask(&mut self, now: Moment) -> i64 {
        self.sequence += 1;
        self.asked.push_back((self.sequence, now));
        if self.asked.len() > ASKED_MAX {
            self.asked.pop_front();
        }
        self.sequence
    }

    /// A heartbeat was answered. The newest question decides, also when it shortens the lease: after a move to
    /// another dispatcher it is that one's renewal that counts. An answer without an age renews nothing.
    pub(crate) fn answered(&mut self, sequence: i64, renewal_age: Option<Duration>) {
        let Some(index) = self.asked.iter().position(|(asked, _)| *asked == sequence) else { return };
        let (_, asked) = self.asked[index];
        self.asked.drain(..=index);
        if let Some(age) = renewal_age {
            self.until = Some(asked.before(age) + self.terms.self_deadline);
        }
    }

    /// True while the worker may work.
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.until.is_some_and(|until| now < until)
    }

    /// Its end.
    pub(crate) const fn until(&self) -> Option<Moment> {
        self.until
    }

    /// How long the oldest question has waited for its answer.
    pub(crate) fn silence(&self, now: Moment) -> Duration {
        self.asked.front().map_or(Duration::ZERO, |(_, asked)| now.since(*asked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn granted() -> Lease {
        let mut lease = Lease::default();
        lease.grant(Terms::default(), Moment::at(100));
        lease
    }

    #[test]
    fn nothing_is_allowed_before_the_first_grant() {
        assert!(!Lease::default().is_valid(Moment::at(0)));
    }

    #[test]
    fn a_renewal_counts_from_before_the_question_less_its_age() {
        let mut lease = granted();
        let sequence = lease.ask(Moment::at(103));
        lease.answered(sequence, Some(seconds(2)));
        assert_eq!(lease.until(), Some(Moment::at(110)), "103 - 2 + 9, however late the answer came");
    }

    #[test]
    fn an_answer_from_before_a_freeze_extends_nothing() {
        let mut lease = granted();
        let sequence = lease.ask(Moment::at(103));
        let thawed = Moment::at(163);
        lease.answered(sequence, Some(seconds(0)));
        assert!(!lease.is_valid(thawed));
    }

    #[test]
    fn a_dispatcher_without_its_database_does_not_extend_the_lease() {
        let mut lease = granted();
        for (now, age) in [(103, 1), (106, 4), (109, 7)] {
            let sequence = lease.ask(Moment::at(now));
            lease.answered(sequence, Some(seconds(age)));
            assert_eq!(lease.until(), Some(Moment::at(111)), "its last renewal was at 102");
        }
    }

    #[test]
    fn unknown_and_repeated_answers_change_nothing() {
        let mut lease = granted();
        let (first, second) = (lease.ask(Moment::at(103)), lease.ask(Moment::at(106)));
        lease.answered(second, Some(seconds(0)));
        lease.answered(first, Some(seconds(0)));
        lease.answered(second, Some(seconds(5)));
        lease.answered(99, Some(seconds(0)));
        let third = lease.ask(Moment::at(109));
        lease.answered(third, None);
        assert_eq!(lease.until(), Some(Moment::at(115)));
    }

    #[test]
    fn silence_is_the_age_of_the_oldest_open_question() {
        let mut lease = granted();
        assert_eq!(lease.silence(Moment::at(150)), seconds(0));
        let first = lease.ask(Moment::at(103));
        lease.ask(Moment::at(106));
        assert_eq!(lease.silence(Moment::at(107)), seconds(4));
        lease.answered(first, Some(seconds(0)));
        assert_eq!(lease.silence(Moment::at(107)), seconds(1));
    }
}
