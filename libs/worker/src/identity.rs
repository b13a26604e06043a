//! Who this worker is, and what it introduces itself with.

use crate::clock::Moment;
use crate::hand::Hand;
use rpc::v1;
use std::collections::BTreeMap;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Identity {
    pub name: String,
    pub queues: Vec<String>,
    pub slots: usize,
    pub labels: BTreeMap<String, String>,
    pub version: String,
}

impl Identity {
    /// The first message of a connection that goes on with session `session_id`; an empty one begins a new session.
    pub(crate) fn hello(&self, session_id: &str, hand: &Hand, now: Moment) -> v1::Hello {
        v1::Hello {
            name: self.name.clone(),
            queues: self.queues.clone(),
            slots: i32::try_from(self.slots).unwrap_or(i32::MAX),
            labels: self.labels.clone().into_iter().collect(),
            version: self.version.clone(),
            session_id: session_id.to_owned(),
            in_hand: hand.in_hand(),
            unheard: hand.unheard(now),
        }
    }
}
