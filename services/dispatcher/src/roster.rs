//! The workers attached to this dispatcher and the runs that it believes they hold.
//!
//! Pure but for the messages that it puts into the connections' channels, under one lock, so that the numbers of
//! assignments are in the order in which they are sent. Time is an argument. Invariant: a run is put into a channel
//! only for the connection that it was leased or re-read for. What it believes is corrected by [`crate::reconcile`];
//! what a run's lease really says, only the database knows.

use crate::definitions::Handout;
use crate::message;
use chrono::{DateTime, Utc};
use model::ids::{DispatcherId, RunKey, SessionId, TenantId};
use rpc::convert::run::AttemptRef;
use rpc::v1::ToWorker;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};
use store::run_queue::Slot;
use store::worker_session::Seen;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// The way to one connection of a worker.
#[derive(Debug, Clone)]
pub struct Link {
    sender: mpsc::Sender<Result<ToWorker, Status>>,
    closed: CancellationToken,
}

impl Link {
    /// A way into this channel.
    pub fn new(sender: mpsc::Sender<Result<ToWorker, Status>>) -> Self {
        Self { sender, closed: CancellationToken::new() }
    }

    /// Sends, or closes the connection when it takes no more: the worker then resumes and is told again.
    pub fn send(&self, message: ToWorker) {
        if self.sender.try_send(Ok(message)).is_err() {
            self.close();
        }
    }

    /// Ends the connection and says why, if there is room for it.
    pub fn refuse(&self, status: Status) {
        let _ = self.sender.try_send(Err(status));
        self.close();
    }

    /// Ends the connection.
    pub fn close(&self) {
        self.closed.cancel();
    }

    /// Returns once it is to end.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }
}

/// A run that a worker is believed to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The attempt.
    pub attempt: AttemptRef,
    /// Its assignment's number on this connection; 0 when the worker brought it along.
    pub number: i64,
    /// When it was to start.
    pub due_at: DateTime<Utc>,
    /// How often it was sent again.
    pub again: u32,
}

/// What a worker said in its last heartbeat on this connection.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// The highest assignment number that it has processed.
    pub processed: i64,
    /// Every run that it has.
    pub in_hand: HashSet<AttemptRef>,
}

impl Said {
    /// True when the worker has processed the assignment and does not have the run: it never arrived.
    pub fn lacks(&self, held: &Held) -> bool {
        held.number <= self.processed && !self.in_hand.contains(&held.attempt)
    }
}

/// What is known of a session.
#[derive(Debug)]
pub struct Session {
    connection: i32,
    tenant: Option<TenantId>,
    queues: Vec<String>,
    slots: usize,
    link: Option<Link>,
    heard: Instant,
    draining: bool,
    /// When it was told to connect elsewhere, if it alone was.
    sent_away: Option<Instant>,
    numbered: i64,
    held: BTreeMap<RunKey, Held>,
    said: Option<Said>,
    unknown: HashSet<AttemptRef>,
}

/// A new connection of a session.
#[derive(Debug)]
pub struct Attached {
    /// Its number.
    pub connection: i32,
    /// Whose runs the worker may take; none is every tenant's.
    pub tenant: Option<TenantId>,
    /// Its queues.
    pub queues: Vec<String>,
    /// Runs at a time.
    pub slots: usize,
    /// The way to it.
    pub link: Link,
}

/// Workers that may take the same runs, with their free slots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Whose runs; none is every tenant's.
    pub tenant: Option<TenantId>,
    /// Their queues.
    pub queues: Vec<String>,
    /// A slot of each worker, then the next of each: so that work spreads. As many as were asked for at most.
    pub slots: Vec<Slot>,
    /// All slots that are free.
    pub free: usize,
}

/// What follows from a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// Nothing.
    Fine,
    /// An assignment seems not to have arrived.
    Missing,
    /// The connection is not the session's present one.
    Superseded,
}

/// A session with its held runs at one moment.
#[derive(Debug, Clone)]
pub struct View {
    /// The connection.
    pub connection: i32,
    /// What the worker is believed to hold.
    pub held: BTreeMap<RunKey, Held>,
    /// What it said last.
    pub said: Option<Said>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Roster {
    sessions: HashMap<SessionId, Session>,
}

impl Roster {
    /// A connection of a session was welcomed; its lease counts from `heard`. Runs are [`adopt`](Self::adopt)ed next.
    pub fn attach(&mut self, id: SessionId, new: Attached, heard: Instant) {
        let Attached { connection, tenant, queues, slots, link } = new;
        let session = Session {
            connection,
            tenant,
            queues,
            slots,
            link: Some(link),
            heard,
            draining: false,
            sent_away: None,
            numbered: 0,
            held: BTreeMap::new(),
            said: None,
            unknown: HashSet::new(),
        };
        if let Some(Session { link: Some(old), .. }) = self.sessions.insert(id, session) {
            old.close();
        }
    }

    /// A session is ours and nobody is connected: it is missed from now on.
    pub fn miss(&mut self, seen: Seen, now: Instant) {
        self.sessions.entry(seen.session).or_insert_with(|| Session {
            connection: seen.connection,
            tenant: None,
            queues: Vec::new(),
            slots: 0,
            link: None,
            heard: now,
            draining: true,
            sent_away: None,
            numbered: 0,
            held: BTreeMap::new(),
            said: None,
            unknown: HashSet::new(),
        });
    }

    /// The connection has broken. The session stays until its worker resumes, or is given up.
    pub fn detach(&mut self, id: SessionId, connection: i32) {
        if let Some(session) = self.current(id, connection) {
            session.link = None;
        }
    }

    /// The session is no longer ours.
    pub fn forget(&mut self, id: SessionId, connection: i32) {
        if self.current(id, connection).is_some()
            && let Some(Session { link: Some(link), .. }) = self.sessions.remove(&id)
        {
            link.close();
        }
    }

    fn current(&mut self, id: SessionId, connection: i32) -> Option<&mut Session> {
        self.sessions.get_mut(&id).filter(|session| session.connection == connection)
    }

    /// The worker wants no more runs.
    pub fn drain(&mut self, id: SessionId, connection: i32) {
        if let Some(session) = self.current(id, connection) {
            session.draining = true;
        }
    }

    /// Every worker is to connect elsewhere, and gets nothing more here.
    pub fn drain_all(&mut self) {
        for session in self.sessions.values_mut() {
            session.draining = true;
            if let Some(link) = &session.link {
                link.send(message::drain());
            }
        }
    }

    /// Ends every connection.
    pub fn close_all(&self) {
        self.sessions.values().filter_map(|session| session.link.as_ref()).for_each(Link::close);
    }

    /// True while a worker is connected.
    pub fn connected(&self) -> bool {
        self.sessions.values().any(|session| session.link.is_some())
    }

    /// How many sessions there are, connected or missed.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    /// A heartbeat came, whose worker was sure to hear us as of `heard`. A run that the worker has and we don't know of,
    /// twice in a row, is cancelled: once may be a completion whose acknowledgement is under way.
    pub fn heard(&mut self, id: SessionId, connection: i32, said: Said, heard: Instant) -> Heard {
        let Some(session) = self.current(id, connection) else { return Heard::Superseded };
        session.heard = session.heard.max(heard);
        let known = |attempt: &AttemptRef| {
            session.held.get(&attempt.key).is_some_and(|held| held.attempt == *attempt)
        };
        let unknown: HashSet<AttemptRef> =
            said.in_hand.iter().filter(|attempt| !known(attempt)).copied().collect();
        if let Some(link) = &session.link {
            for attempt in unknown.intersection(&session.unknown) {
                link.send(message::cancel(attempt, "the run is no longer this worker's"));
            }
        }
        let missing = session.held.values().any(|held| said.lacks(held));
        session.unknown = unknown;
        session.said = Some(said);
        if missing { Heard::Missing } else { Heard::Fine }
    }

    /// Every worker has a full lease again.
    pub fn grant_all(&mut self, now: Instant) {
        self.sessions.values_mut().for_each(|session| session.heard = now);
    }

    /// Sessions of `own` that were silent, or heard nothing, for `lease`.
    pub fn silent(&self, own: DispatcherId, lease: Duration, now: Instant) -> Vec<Seen> {
        let silent = |session: &&Session| now.saturating_duration_since(session.heard) >= lease;
        let seen = |(id, session): (&SessionId, &Session)| Seen {
            session: *id,
            dispatcher: own,
            connection: session.connection,
        };
        self.sessions.iter().filter(|(_, session)| silent(session)).map(seen).collect()
    }

    /// The groups of connected workers that have been heard of, those without a free slot too, with `slots_max` slots each at most.
    pub fn groups(&self, slots_max: usize) -> Vec<Group> {
        /// Each slot with its turn, and how many there are in all.
        type Turns = (Vec<(usize, Slot)>, usize);
        let mut groups: BTreeMap<(Option<TenantId>, &[String]), Turns> = BTreeMap::new();
        for (id, session) in &self.sessions {
            // One that has said nothing yet may not hear.
            if session.link.is_none() || session.draining || session.said.is_none() {
                continue;
            }
            let free = session.slots.saturating_sub(session.held.len());
            let slot = Slot { session: *id, connection: session.connection };
            let (slots, all) = groups.entry((session.tenant, &session.queues)).or_default();
            slots.extend((0..free.min(slots_max)).map(|turn| (turn, slot)));
            *all += free;
        }
        let group = |tenant, queues: &[String], (mut slots, free): Turns| {
            slots.sort_by_key(|(turn, _)| *turn);
            slots.truncate(slots_max);
            let slots = slots.into_iter().map(|(_, slot)| slot).collect();
            Group { tenant, queues: queues.to_vec(), slots, free }
        };
        groups.into_iter().map(|((tenant, queues), slots)| group(tenant, queues, slots)).collect()
    }

    /// Sends a run to the worker that it is leased to, if that connection is still the present one.
    pub fn deliver(&mut self, handout: &Handout) {
        let assignment = &handout.assignment;
        let lease = &assignment.lease;
        let Some(session) = lease.session.and_then(|id| self.current(id, lease.connection)) else { return };
        session.numbered += 1;
        let again = session.held.get(&lease.key).map_or(0, |held| held.again + 1);
        let held = Held {
            attempt: message::attempt_of(lease),
            number: session.numbered,
            due_at: assignment.due_at,
            again,
        };
        session.held.insert(lease.key, held);
        if let Some(link) = &session.link {
            link.send(message::assignment(session.numbered, handout));
        }
    }

    /// Takes over what a resuming worker brought along, and sends what it lacks; how many that were.
    pub fn adopt(&mut self, handouts: &[Handout], in_hand: &HashSet<AttemptRef>) -> usize {
        let mut sent = 0;
        for handout in handouts {
            let assignment = &handout.assignment;
            let attempt = message::attempt_of(&assignment.lease);
            if !in_hand.contains(&attempt) {
                self.deliver(handout);
                sent += 1;
                continue;
            }
            let lease = &assignment.lease;
            if let Some(session) = lease.session.and_then(|id| self.current(id, lease.connection)) {
                let held = Held { attempt, number: 0, due_at: assignment.due_at, again: 0 };
                session.held.insert(lease.key, held);
            }
        }
        sent
    }

    /// What is believed of an attempt.
    pub fn held(&self, id: SessionId, attempt: &AttemptRef) -> Option<Held> {
        let held = self.sessions.get(&id)?.held.get(&attempt.key)?;
        (held.attempt == *attempt).then_some(*held)
    }

    /// The worker does not hold the attempt any more. True when that made a slot free.
    pub fn release(&mut self, id: SessionId, attempt: &AttemptRef) -> bool {
        if self.held(id, attempt).is_none() {
            return false;
        }
        self.sessions.get_mut(&id).and_then(|session| session.held.remove(&attempt.key)).is_some()
    }

    /// Sends to the session's present connection.
    pub fn send(&self, id: SessionId, message: ToWorker) {
        if let Some(link) = self.sessions.get(&id).and_then(|session| session.link.as_ref()) {
            link.send(message);
        }
    }

    /// Every session as it is now.
    pub fn view(&self) -> HashMap<SessionId, View> {
        let view = |session: &Session| View {
            connection: session.connection,
            held: session.held.clone(),
            said: session.said.clone(),
        };
        self.sessions.iter().map(|(id, session)| (*id, view(session))).collect()
    }
}

mod moving;
#[cfg(test)]
mod tests;
