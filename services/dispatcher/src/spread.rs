//! Whether this dispatcher has more than its share of the workers, and which of them goes to another. Pure; time is an
//! argument.
//!
//! Where a worker begins is chance, and there it stays: after a restart of dispatchers one of them may have all workers,
//! and then it hands out a herd alone. Slots are counted, over all queues: each dispatcher serves each queue.
//!
//! Invariant: a worker goes only if what stays is at least a fair share, by what the last list shows. So no dispatcher falls
//! below its share by sending, even if others send at the same moment. The worker arrives at a dispatcher that needs it, or is
//! sent on from there. Of two dispatchers at most one has more than half. A worker between two dispatchers is in no list: one
//! that takes longer than the pause may be followed by one too many, which comes back the same way. Deliberately not here:
//! where a worker goes. It turns to the next address of its own list, which may be this one again: a worker that was sent
//! away and came back is left alone, each time for twice as long.

use model::ids::SessionId;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// From one that is sent away to the next: by then it has resumed elsewhere, that dispatcher has shown it, and this one has
/// seen that, which are two looks of two seconds.
const PAUSE: Duration = Duration::from_secs(6);
/// Looks that are further apart say nothing of the time between them.
const LOOK_GAP_MAX: Duration = Duration::from_secs(10);
/// How long a session that was sent away once stays if it comes back; each time twice as long, up to the second figure.
const STAYS: Duration = Duration::from_secs(600);
const STAYS_MAX: Duration = Duration::from_secs(86_400);
/// What is longer ago than this is forgotten. With a pause after each, 28,800 sessions are remembered at most.
const REMEMBERED: Duration = Duration::from_secs(2 * 86_400);

/// A worker that is connected here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its session.
    pub session: SessionId,
    /// On this connection.
    pub connection: i32,
    /// Runs at a time.
    pub slots: u64,
    /// Runs that it is believed to hold.
    pub in_hand: usize,
    /// It has been heard on this connection.
    pub settled: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Spread {
    after: Option<Duration>,
    looked: Option<Instant>,
    /// Since when every look found somebody who should go.
    since: Option<Instant>,
    last_sent: Option<Instant>,
    sent: HashMap<SessionId, Sent>,
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    times: u32,
    last: Instant,
}

impl Sent {
    fn stays(&self) -> Duration {
        let doubled = 1_u32.checked_shl(self.times.saturating_sub(1)).unwrap_or(u32::MAX);
        STAYS.saturating_mul(doubled).min(STAYS_MAX)
    }
}

impl Spread {
    /// Sends nobody away before this dispatcher has had too many for `after`; with none, never.
    pub fn new(after: Option<Duration>) -> Self {
        Self { after, looked: None, since: None, last_sent: None, sent: HashMap::new() }
    }

    /// It can't be told how things are: what lasts, lasts from later on.
    pub fn interrupted(&mut self) {
        self.since = None;
    }

    /// Who is to go now, of this dispatcher's workers, while the others have so many slots each.
    pub fn look(&mut self, own: &[Load], others: &[u64], now: Instant) -> Option<Load> {
        let after = self.after?;
        let last = self.looked.replace(now);
        if last.is_some_and(|last| now.saturating_duration_since(last) > LOOK_GAP_MAX) {
            self.since = None;
        }
        let Some(load) = self.choose(own, others, now) else {
            self.since = None;
            return None;
        };
        let since = *self.since.get_or_insert(now);
        let rests = self.last_sent.is_some_and(|sent| now.saturating_duration_since(sent) < PAUSE);
        if rests || now.saturating_duration_since(since) < after {
            return None;
        }
        self.sent.retain(|_, sent| now.saturating_duration_since(sent.last) < REMEMBERED);
        let times = self.times(load.session) + 1;
        self.sent.insert(load.session, Sent { times, last: now });
        self.last_sent = Some(now);
        Some(load)
    }

    /// Of those that leave a share behind, one that has not come back before, with the fewest runs; the largest of these.
    fn choose(&self, own: &[Load], others: &[u64], now: Instant) -> Option<Load> {
        let have: u128 = own.iter().map(|load| u128::from(load.slots)).sum();
        let all = have + others.iter().map(|slots| u128::from(*slots)).sum::<u128>();
        let dispatchers = others.len() as u128 + 1;
        let leaves_a_share = |load: &&Load| (have - u128::from(load.slots)) * dispatchers >= all;
        let may_go = |load: &&Load| {
            let sent = self.sent.get(&load.session);
            load.settled && sent.is_none_or(|sent| now.saturating_duration_since(sent.last) >= sent.stays())
        };
        let rank = |load: &&Load| (self.times(load.session), load.in_hand, Reverse(load.slots), load.session);
        own.iter().filter(may_go).filter(leaves_a_share).min_by_key(rank).copied()
    }

    fn times(&self, session: SessionId) -> u32 {
        self.sent.get(&session).map_or(0, |sent| sent.times)
    }
}

#[cfg(test)]
mod tests;
