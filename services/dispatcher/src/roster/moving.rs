//! Workers that are connected here, as far as it matters where they are connected; and sending one elsewhere.
//!
//! One that goes keeps its runs: what is on its way to it is told by the next dispatcher, from the leases.

use super::{Link, Roster};
use crate::message;
use crate::spread::Load;
use model::ids::SessionId;
use std::time::{Duration, Instant};

impl Roster {
    /// Whether a worker may come, of `sessions_max` at most; one whose session is still here has its place.
    pub fn has_room(&self, earlier: Option<SessionId>, sessions_max: usize) -> bool {
        let known = earlier.is_some_and(|id| self.sessions.contains_key(&id));
        known || self.sessions.len() < sessions_max
    }

    /// The connected workers that take runs.
    pub fn loads(&self) -> Vec<Load> {
        let here = self.sessions.iter().filter(|(_, session)| session.link.is_some() && !session.draining);
        let load = here.map(|(id, session)| Load {
            session: *id,
            connection: session.connection,
            slots: session.slots as u64,
            in_hand: session.held.len(),
            settled: session.said.is_some(),
        });
        load.collect()
    }

    /// This worker is to connect elsewhere, and gets nothing more here. False when the connection is not its present one.
    pub fn send_away(&mut self, id: SessionId, connection: i32, now: Instant) -> bool {
        let Some(session) = self.current(id, connection) else { return false };
        let Some(link) = &session.link else { return false };
        link.send(message::drain());
        session.draining = true;
        session.sent_away = Some(now);
        true
    }

    /// Ends the connections of workers that were sent away `limit` ago and are still here: they get no runs here, and would
    /// get none anywhere else.
    pub fn close_lingering(&self, limit: Duration, now: Instant) {
        let lingers = |sent: Instant| now.saturating_duration_since(sent) >= limit;
        let lingering = self.sessions.values().filter(|session| session.sent_away.is_some_and(lingers));
        lingering.filter_map(|session| session.link.as_ref()).for_each(Link::close);
    }
}
