//! The runs that this worker has in hand, and what must be done about them. Pure: time is an argument.
//!
//! Each method is one event; it changes the table and returns the [`Action`]s that follow. Invariants: an attempt
//! is started once; it stays in hand, and is named in heartbeats, until its completion is acknowledged; nothing
//! starts while the lease is not valid, nor beside another attempt of the same run; at most `slots` run at a
//! time, what comes beyond waits. Deliberately knows no connection: whether a message got through shows in the
//! acknowledgement alone.

use crate::assignment::{Assignment, Attempt};
use crate::clock::Moment;
use crate::lease::{Answer, Lease, Question, Renewal, Terms};
use crate::report::{self, Report, StopCause};
use rpc::v1;
use std::collections::{BTreeMap, VecDeque};

/// What is to be done after an event, in this order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Start the work.
    Start(Box<Assignment>),
    /// Ask the work to stop, and end it after the grace.
    Stop(Attempt, StopCause),
    /// Tell the dispatcher that it has started.
    Accepted(Attempt),
    /// Tell the dispatcher that it has ended.
    Completed(Box<v1::Completed>),
}

#[derive(Debug)]
enum Entry {
    /// For a slot, for the lease, or for the end of an older attempt.
    Waiting(Box<Assignment>),
    Running {
        /// When `max_runtime` is over.
        until: Moment,
        /// Why it was asked to stop.
        stop: Option<StopCause>,
    },
    /// Until the completion is acknowledged.
    Ended { completed: Box<v1::Completed>, sent: Moment },
}

/// The table.
#[derive(Debug)]
pub(crate) struct Hand {
    slots: usize,
    running: usize,
    /// How many of the running ones were asked to stop.
    stopping: usize,
    runs: BTreeMap<Attempt, Entry>,
    waiting: VecDeque<Attempt>,
    /// The highest assignment number of this connection.
    processed: i64,
    /// No `max_runtime` is over before.
    next_timeout: Option<Moment>,
    lease: Lease,
}

impl Hand {
    /// An empty hand for `slots` runs at a time.
    pub(crate) fn new(slots: usize) -> Self {
        Self {
            slots,
            running: 0,
            stopping: 0,
            runs: BTreeMap::new(),
            waiting: VecDeque::new(),
            processed: 0,
            next_timeout: None,
            lease: Lease::default(),
        }
    }

    /// A connection was welcomed; `asked` is from before its Hello. What the last one may have lost is said again.
    pub(crate) fn welcomed(
        &mut self,
        terms: Terms,
        asked: Moment,
        resumed: bool,
        now: Moment,
    ) -> Vec<Action> {
        self.processed = 0;
        self.lease.grant(terms, asked, resumed);
        let mut actions = Vec::new();
        if !resumed {
            self.stop_all(&StopCause::SessionGone, now, &mut actions);
        }
        for (attempt, entry) in &mut self.runs {
            match entry {
                Entry::Waiting(_) => {}
                Entry::Running { .. } => actions.push(Action::Accepted(*attempt)),
                Entry::Ended { completed, sent } => {
                    *sent = now;
                    actions.push(Action::Completed(completed.clone()));
                }
            }
        }
        self.start_waiting(now, &mut actions);
        actions
    }

    /// An assignment arrived. One that is in hand already is only answered again.
    pub(crate) fn assigned(&mut self, number: i64, assignment: Assignment, now: Moment) -> Vec<Action> {
        self.processed = self.processed.max(number);
        let attempt = assignment.attempt;
        let mut actions = Vec::new();
        match self.runs.get(&attempt) {
            Some(Entry::Waiting(_)) => {}
            Some(Entry::Running { .. }) => actions.push(Action::Accepted(attempt)),
            Some(Entry::Ended { completed, .. }) => actions.push(Action::Completed(completed.clone())),
            None if self.attempts_of(attempt).any(|other| other > attempt) => {
                self.end(attempt, Some(&StopCause::NewerAttempt), Report::not_started(""), now, &mut actions);
            }
            None => {
                self.stop_older(attempt, now, &mut actions);
                self.runs.insert(attempt, Entry::Waiting(Box::new(assignment)));
                self.waiting.push_back(attempt);
                self.start_waiting(now, &mut actions);
            }
        }
        actions
    }

    /// An assignment arrived that names no attempt: it counts as processed and is not in hand.
    pub(crate) fn skipped(&mut self, number: i64) {
        self.processed = self.processed.max(number);
    }

    /// The work of a running attempt has ended; `stopped` when it had been asked to before.
    pub(crate) fn ended(
        &mut self,
        attempt: Attempt,
        report: Report,
        stopped: bool,
        now: Moment,
    ) -> Vec<Action> {
        let Some(Entry::Running { stop, .. }) = self.runs.get_mut(&attempt) else { return Vec::new() };
        let cause = stop.take();
        self.running -= 1;
        self.stopping -= usize::from(cause.is_some());
        let cause = cause.filter(|_| stopped);
        let mut actions = Vec::new();
        self.end(attempt, cause.as_ref(), report, now, &mut actions);
        self.start_waiting(now, &mut actions);
        actions
    }

    /// The dispatcher wants an attempt stopped.
    pub(crate) fn cancelled(&mut self, attempt: Attempt, reason: &str, now: Moment) -> Vec<Action> {
        let mut actions = Vec::new();
        self.stop(attempt, &StopCause::Cancelled { reason: reason.to_owned() }, now, &mut actions);
        actions
    }

    /// The dispatcher has a completion, or refuses it as stale: either way the attempt is no longer ours.
    pub(crate) fn acknowledged(&mut self, attempt: Attempt) {
        if matches!(self.runs.get(&attempt), Some(Entry::Ended { .. })) {
            self.runs.remove(&attempt);
        }
    }

    /// A heartbeat was answered.
    pub(crate) fn renewed(&mut self, sequence: i64, renewal: Renewal, now: Moment) -> Vec<Action> {
        self.lease.answered(sequence, renewal);
        let mut actions = Vec::new();
        self.start_waiting(now, &mut actions);
        actions
    }

    /// The connection is gone.
    pub(crate) fn disconnected(&mut self) {
        self.lease.disconnected();
    }

    /// Whom to ask whether they have the database, if something runs that may end for want of a renewal.
    pub(crate) fn question(&mut self, now: Moment) -> Option<Question> {
        if self.running > self.stopping { self.lease.question(now) } else { None }
    }

    /// They have answered; true when the work goes on for that.
    pub(crate) fn vouched(&mut self, asked: Moment, answers: &[Answer], now: Moment) -> bool {
        self.lease.vouched(asked, answers, now)
    }

    /// Time has passed. Comes first, before whatever else happened: after a freeze the expired lease decides.
    pub(crate) fn passed(&mut self, now: Moment) -> Vec<Action> {
        let expired = self.running > self.stopping && !self.lease.is_valid(now);
        let timeout = self.next_timeout.is_some_and(|next| next <= now);
        let mut actions = Vec::new();
        if !expired && !timeout {
            return actions;
        }
        self.next_timeout = None;
        for (attempt, entry) in &mut self.runs {
            let Entry::Running { until, stop: stop @ None } = entry else { continue };
            let cause = match (*until <= now, expired) {
                (true, _) => StopCause::TimedOut,
                (_, true) => StopCause::LeaseExpired,
                _ => {
                    self.next_timeout = earlier(self.next_timeout, Some(*until));
                    continue;
                }
            };
            *stop = Some(cause.clone());
            self.stopping += 1;
            actions.push(Action::Stop(*attempt, cause));
        }
        actions
    }

    /// Everything that has not ended yet is stopped for `cause`.
    pub(crate) fn stop_all(&mut self, cause: &StopCause, now: Moment, actions: &mut Vec<Action>) {
        let all: Vec<Attempt> = self.runs.keys().copied().collect();
        for attempt in all {
            self.stop(attempt, cause, now, actions);
        }
    }

    /// The next heartbeat, and the completions that have waited for an acknowledgement since the last one.
    pub(crate) fn heartbeat(&mut self, now: Moment) -> (v1::Heartbeat, Vec<Action>) {
        let sequence = self.lease.ask(now);
        let heartbeat = v1::Heartbeat {
            sequence,
            processed: self.processed,
            in_hand: self.in_hand(),
            unheard: self.unheard(now),
        };
        let interval = self.lease.terms.heartbeat_interval;
        let mut again = Vec::new();
        for entry in self.runs.values_mut() {
            if let Entry::Ended { completed, sent } = entry
                && now.since(*sent) >= interval
            {
                *sent = now;
                again.push(Action::Completed(completed.clone()));
            }
        }
        (heartbeat, again)
    }

    /// How long ago what was answered last was asked, for Hello and heartbeats.
    pub(crate) fn unheard(&self, now: Moment) -> Option<prost_types::Duration> {
        self.lease.unheard(now).map(rpc::convert::time::duration)
    }

    /// Every run in hand, for Hello and heartbeats.
    pub(crate) fn in_hand(&self) -> Vec<v1::RunRef> {
        self.runs.keys().map(|attempt| attempt.to_ref()).collect()
    }

    /// When [`passed`](Self::passed) has something to do next.
    pub(crate) fn wakes_at(&self) -> Option<Moment> {
        let lease = self.lease.until().filter(|_| self.running > self.stopping);
        earlier(self.next_timeout, lease)
    }

    /// True when nothing is in hand.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// How many runs are in hand.
    pub(crate) fn len(&self) -> usize {
        self.runs.len()
    }

    /// How many of them run.
    pub(crate) const fn running(&self) -> usize {
        self.running
    }

    /// The worker's lease.
    pub(crate) const fn lease(&self) -> &Lease {
        &self.lease
    }

    fn start_waiting(&mut self, now: Moment, actions: &mut Vec<Action>) {
        if self.waiting.is_empty() || !self.lease.is_valid(now) {
            return;
        }
        for attempt in std::mem::take(&mut self.waiting) {
            if self.running >= self.slots || self.another_runs(attempt) {
                self.waiting.push_back(attempt);
                continue;
            }
            let Some(entry) = self.runs.get_mut(&attempt) else { continue };
            let Entry::Waiting(assignment) = entry else { continue };
            let until = now + assignment.max_runtime;
            let running = Entry::Running { until, stop: None };
            let Entry::Waiting(assignment) = std::mem::replace(entry, running) else { continue };
            self.running += 1;
            self.next_timeout = earlier(self.next_timeout, Some(until));
            actions.push(Action::Start(assignment));
            actions.push(Action::Accepted(attempt));
        }
    }

    /// True while another attempt of the same run still runs.
    fn another_runs(&self, attempt: Attempt) -> bool {
        self.attempts_of(attempt)
            .any(|other| other != attempt && matches!(self.runs.get(&other), Some(Entry::Running { .. })))
    }

    fn stop_older(&mut self, newer: Attempt, now: Moment, actions: &mut Vec<Action>) {
        let older: Vec<Attempt> = self.attempts_of(newer).filter(|other| *other < newer).collect();
        for attempt in older {
            self.stop(attempt, &StopCause::NewerAttempt, now, actions);
        }
    }

    fn attempts_of(&self, attempt: Attempt) -> impl Iterator<Item = Attempt> {
        let first = Attempt { number: 0, ..attempt };
        self.runs.range(first..).map(|(other, _)| *other).take_while(move |other| other.run == attempt.run)
    }

    /// Asks a running attempt to stop, once; ends one that has not started.
    fn stop(&mut self, attempt: Attempt, cause: &StopCause, now: Moment, actions: &mut Vec<Action>) {
        match self.runs.get_mut(&attempt) {
            Some(Entry::Running { stop: stop @ None, .. }) => {
                *stop = Some(cause.clone());
                self.stopping += 1;
                actions.push(Action::Stop(attempt, cause.clone()));
            }
            Some(Entry::Waiting(_)) => {
                self.waiting.retain(|waiting| *waiting != attempt);
                self.end(attempt, Some(cause), Report::not_started(""), now, actions);
            }
            Some(Entry::Running { .. } | Entry::Ended { .. }) | None => {}
        }
    }

    fn end(
        &mut self,
        attempt: Attempt,
        cause: Option<&StopCause>,
        report: Report,
        now: Moment,
        actions: &mut Vec<Action>,
    ) {
        let completed = Box::new(report::completed(attempt, cause, report));
        self.runs.insert(attempt, Entry::Ended { completed: completed.clone(), sent: now });
        actions.push(Action::Completed(completed));
    }
}

fn earlier(one: Option<Moment>, other: Option<Moment>) -> Option<Moment> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
