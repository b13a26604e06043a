//! Which dispatcher's turn it is: around the list, but for one that asks this worker to connect to another.
//!
//! Owns the place in the list. Pure. Invariant: a worker that is sent on tries one other address and, if that fails, goes
//! back to where it came from before it tries a third. So a move costs one failed attempt at most, however many addresses
//! don't answer, and not the lease. Deliberately not here: when to dial, and what counts as a failure.

/// See the module.
#[derive(Debug)]
pub(crate) struct Ring {
    count: usize,
    current: usize,
    /// Whether the current dispatcher could take this worker in again, by its last answer on this connection.
    takes_back: bool,
    turn: Turn,
}

#[derive(Debug, Clone, Copy)]
enum Turn {
    /// After this address the next one.
    Around,
    /// After this address back to the one that sent this worker here.
    SentOn { from: usize },
    /// Back there; if that fails too, on around the list.
    Back { then: usize },
}

impl Ring {
    /// Begins at `start` of `count` addresses.
    pub(crate) const fn new(count: usize, start: usize) -> Self {
        Self { count, current: start, takes_back: false, turn: Turn::Around }
    }

    /// The place in the list that is, or will next be, dialled.
    pub(crate) const fn current(&self) -> usize {
        self.current
    }

    /// The current dispatcher could not be reached, or its connection has ended.
    pub(crate) fn failed(&mut self) {
        let next = self.next();
        (self.current, self.turn) = match self.turn {
            Turn::Around => (next, Turn::Around),
            Turn::SentOn { from } => (from, Turn::Back { then: next }),
            Turn::Back { then } => (then, Turn::Around),
        };
        self.takes_back = false;
    }

    /// The current dispatcher asks this worker to connect to another. One that has not shown that it could take it back
    /// is left like one that failed.
    pub(crate) fn sent_on(&mut self) {
        if !self.takes_back {
            return self.failed();
        }
        self.turn = Turn::SentOn { from: self.current };
        self.current = self.next();
        self.takes_back = false;
    }

    /// The current dispatcher has answered a heartbeat; without the database it could not take a worker in.
    pub(crate) const fn answered(&mut self, without_database: bool) {
        self.takes_back = !without_database;
        self.turn = Turn::Around;
    }

    fn next(&self) -> usize {
        (self.current + 1) % self.count.max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of four addresses the one after each failure, beginning with the present one.
    fn order(ring: &mut Ring) -> Vec<usize> {
        let mut places = vec![ring.current()];
        for _ in 0..6 {
            ring.failed();
            places.push(ring.current());
        }
        places
    }

    #[test]
    fn failures_lead_around_the_list() {
        assert_eq!(order(&mut Ring::new(4, 2)), [2, 3, 0, 1, 2, 3, 0]);
        assert_eq!(order(&mut Ring::new(1, 0)), [0; 7]);
    }

    #[test]
    fn who_is_sent_on_tries_one_other_and_comes_back_before_it_tries_a_third() {
        for (start, expected) in [(0, [1, 0, 2, 3, 0, 1, 2]), (3, [0, 3, 1, 2, 3, 0, 1])] {
            let mut ring = Ring::new(4, start);
            ring.answered(false);
            ring.sent_on();
            assert_eq!(order(&mut ring), expected);
        }
        let mut only = Ring::new(1, 0);
        only.answered(false);
        only.sent_on();
        assert_eq!(order(&mut only), [0; 7]);
    }

    #[test]
    fn who_has_arrived_does_not_go_back() {
        let mut ring = Ring::new(4, 0);
        ring.answered(false);
        ring.sent_on();
        ring.answered(false);
        assert_eq!(order(&mut ring), [1, 2, 3, 0, 1, 2, 3]);
        let mut back = Ring::new(4, 0);
        back.answered(false);
        back.sent_on();
        back.failed();
        back.answered(false);
        assert_eq!(order(&mut back), [0, 1, 2, 3, 0, 1, 2], "it was taken back");
    }

    #[test]
    fn a_dispatcher_without_the_database_or_that_answered_nothing_is_not_gone_back_to() {
        let mut cut_off = Ring::new(4, 0);
        cut_off.answered(false);
        cut_off.answered(true);
        cut_off.sent_on();
        assert_eq!(order(&mut cut_off), [1, 2, 3, 0, 1, 2, 3]);
        let mut ends = Ring::new(4, 0);
        ends.answered(false);
        ends.sent_on();
        ends.sent_on();
        assert_eq!(order(&mut ends)[..4], [0, 2, 3, 0], "the second one ends: back to the first");
    }
}
