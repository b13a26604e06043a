//! A [`HighestSeen`] in the memory of one process.

use super::seen::{Entry, Seen, Turn};
use super::{Admission, HighestSeen};
use crate::{FencingToken, GuardKey};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Remembers in the memory of this process, and lets a newer attempt's handler begin only when those of older ones
/// have ended. So a handler needs a time limit of its own (a timeout layer *behind* this one): it holds up its
/// successor.
///
/// What it does not protect from: after a restart of the process nothing is remembered, and the first token to come
/// passes; a second process knows nothing of the first. Use a table for either.
#[derive(Debug, Clone)]
pub struct InMemory(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    keys_max: usize,
    seen: Mutex<Seen>,
    left: Notify,
}

/// More guard keys than there is room for were used lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{keys_max} guard keys are remembered already, and none is old enough to be forgotten")]
pub struct Full {
    /// The limit.
    pub keys_max: usize,
}

impl InMemory {
    /// Remembers a guard key until it was not used for `keep`: longer than any machine may stay frozen and come back. Of
    /// more than `keys_max` keys the newest are refused (503) rather than an old one forgotten too early; a key takes
    /// some 200 bytes.
    pub fn new(keep: Duration, keys_max: usize) -> Self {
        let seen = Mutex::new(Seen::new(keep, keys_max));
        Self(Arc::new(Inner { keys_max, seen, left: Notify::new() }))
    }
}

impl Inner {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts its handler as at work until it is dropped.
#[derive(Debug)]
pub struct Permit {
    memory: Arc<Inner>,
    key: GuardKey,
    token: FencingToken,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.memory.seen().leave(&self.key, self.token);
        self.memory.left.notify_waiters();
    }
}

impl HighestSeen for InMemory {
    type Permit = Permit;
    type Error = Full;

    async fn admit(&self, key: &GuardKey, token: FencingToken) -> Result<Admission<Permit>, Full> {
        let entry = self.0.seen().enter(key, token, Instant::now());
        // From here on dropping the permit undoes the entry, also when the caller goes away while it waits.
        let permit = match entry {
            Entry::Entered => Permit { memory: Arc::clone(&self.0), key: key.clone(), token },
            Entry::Stale(highest) => return Ok(Admission::Stale { highest: Some(highest) }),
            Entry::Full => return Err(Full { keys_max: self.0.keys_max }),
        };
        loop {
            // Before the look: whoever leaves between look and wait is heard.
            let left = self.0.left.notified();
            let turn = self.0.seen().turn(key, token);
            match turn {
                Turn::Now => return Ok(Admission::Admitted(permit)),
                Turn::Stale(highest) => return Ok(Admission::Stale { highest: Some(highest) }),
                Turn::Later => left.await,
            }
        }
    }
}
