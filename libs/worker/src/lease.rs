//! How long this worker may work without hearing from its dispatcher. Pure: time is an argument.
//!
//! Invariant: a renewal counts from before the worker asked for it, less the age that the answer names, so that
//! the worker's deadline always lies before the moment from which its runs may be given to another. An answer
//! that arrives after a freeze is as old as its question and extends nothing.
//!
//! While the database is away there are no renewals, and nobody who could give runs to another: the worker may go on
//! from before it asked **every** dispatcher, if each answers that it is without the database. A dispatcher that has it
//! back waits for a lease of contact before it gives runs away, and one that is in no list of at most
//! [`LIST_AGE_MAX`] does not give away another's. One that does not answer may be the one that has it.

use crate::clock::Moment;
use rpc::v1;
use std::collections::VecDeque;
use std::time::Duration;

/// The most questions that are remembered; the link is given up long before.
const ASKED_MAX: usize = 64;
/// How old a list of dispatchers may be when they are asked by it.
pub(crate) const LIST_AGE_MAX: Duration = Duration::from_secs(7);
/// Between two times that all are asked.
const ASK_EVERY: Duration = Duration::from_secs(1);

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

/// What a dispatcher says in the answer to a heartbeat.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Renewal {
    /// How old its last renewal is.
    pub age: Option<Duration>,
    /// Only when it is without the database.
    pub peers: Option<PeerList>,
}

/// Every dispatcher there was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerList {
    pub peers: Vec<Peer>,
    /// How long ago, as of the answer that has it.
    pub age: Duration,
}

/// A dispatcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    /// The process.
    pub id: String,
    pub address: String,
}

/// All of them are to be asked whether they have the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// From before the first is asked.
    pub asked: Moment,
    pub peers: Vec<Peer>,
}

/// What one of them says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It is without the database, and gives nobody's runs away.
    Without,
    /// It has the database.
    With,
    /// Nothing, or somebody else answers.
    Silent,
}

impl Answer {
    /// What `standing`, from the address of `peer`, says of `peer`.
    pub(crate) fn of(peer: &Peer, standing: &v1::StandingResponse) -> Self {
        match standing.without_database {
            _ if standing.dispatcher_id != peer.id => Self::Silent,
            true => Self::Without,
            false => Self::With,
        }
    }
}

impl Renewal {
    /// As it stands in an answer.
    pub(crate) fn of(ack: v1::HeartbeatAck) -> Self {
        let duration = |given: Option<prost_types::Duration>| given.and_then(|given| given.try_into().ok());
        let peer = |peer: v1::DispatcherRef| Peer { id: peer.id, address: peer.address };
        let age = duration(ack.list_age).filter(|_| ack.without_database && !ack.dispatchers.is_empty());
        let peers = age.map(|age| PeerList { peers: ack.dispatchers.into_iter().map(peer).collect(), age });
        Self { age: duration(ack.renewal_age), peers }
    }
}

/// The worker's lease as it knows it.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    pub(crate) terms: Terms,
    /// The end by the dispatcher's renewals; none before the first grant.
    renewed_until: Option<Moment>,
    /// The end by what all dispatchers said.
    vouched_until: Option<Moment>,
    /// Whom to ask on this connection, and since when they are known.
    peers: Option<(Vec<Peer>, Moment)>,
    asked_all: Option<Moment>,
    /// From before the question that was answered last.
    heard: Option<Moment>,
    sequence: i64,
    asked: VecDeque<(i64, Moment)>,
}

impl Lease {
    /// A connection was welcomed; `asked` is from before the Hello was sent. A new session's row was written after
    /// that; the first heartbeat's answer corrects the deadline by the age of the dispatcher's own row. A resumed
    /// session goes on as it was: the dispatcher counts from what this worker said that it had heard, not from the
    /// Hello, because it can't know whether its Welcome arrives.
    pub(crate) fn grant(&mut self, terms: Terms, asked: Moment, resumed: bool) {
        self.terms = terms;
        if !resumed || self.renewed_until.is_none() {
            self.renewed_until = Some(asked + terms.self_deadline);
            self.vouched_until = None;
            self.heard = Some(asked);
        }
        self.sequence = 0;
        self.asked.clear();
        self.disconnected();
    }

    /// The connection is gone, and with it whom to ask: another dispatcher may have taken the session over unnoticed, and
    /// only a connection's own dispatcher is sure to be asked.
    pub(crate) fn disconnected(&mut self) {
        self.peers = None;
        self.asked_all = None;
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
    pub(crate) fn answered(&mut self, sequence: i64, renewal: Renewal) {
        let Some(index) = self.asked.iter().position(|(asked, _)| *asked == sequence) else { return };
        let (_, asked) = self.asked[index];
        self.asked.drain(..=index);
        self.heard = self.heard.max(Some(asked));
        if let Some(age) = renewal.age {
            self.renewed_until = Some(asked.before(age) + self.terms.self_deadline);
        }
        self.peers = renewal.peers.map(|list| (list.peers, asked.before(list.age)));
    }

    /// Whom to ask now, when the dispatcher is without the database and the lease still holds.
    pub(crate) fn question(&mut self, now: Moment) -> Option<Question> {
        let (peers, listed) = self.peers.as_ref()?;
        let fresh = now.since(*listed) < LIST_AGE_MAX;
        let due = self.asked_all.is_none_or(|asked| now.since(asked) >= ASK_EVERY);
        if !fresh || !due || !self.is_valid(now) {
            return None;
        }
        self.asked_all = Some(now);
        Some(Question { asked: now, peers: peers.clone() })
    }

    /// All were asked at `asked`. A lease that has ended meanwhile stays ended; true when this one goes on.
    pub(crate) fn vouched(&mut self, asked: Moment, answers: &[Answer], now: Moment) -> bool {
        let all_without = !answers.is_empty() && answers.iter().all(|answer| *answer == Answer::Without);
        if !all_without || !self.is_valid(now) {
            return false;
        }
        let until = asked + self.terms.self_deadline;
        self.vouched_until = self.vouched_until.max(Some(until));
        self.heard = self.heard.max(Some(asked));
        true
    }

    /// True while the worker may work.
    pub(crate) fn is_valid(&self, now: Moment) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Its end.
    pub(crate) fn until(&self) -> Option<Moment> {
        self.renewed_until.max(self.vouched_until)
    }

    /// How long ago the question was asked that was answered last; none before the first Welcome.
    pub(crate) fn unheard(&self, now: Moment) -> Option<Duration> {
        self.heard.map(|heard| now.since(heard))
    }

    /// How long the oldest question has waited for its answer.
    pub(crate) fn silence(&self, now: Moment) -> Duration {
        self.asked.front().map_or(Duration::ZERO, |(_, asked)| now.since(*asked))
    }
}

#[cfg(test)]
mod tests;
