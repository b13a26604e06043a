//! What the loops of one dispatcher share.

use crate::bearers::Bearers;
use crate::config::{DispatcherConfig, Terms};
use crate::contact::Contact;
use crate::definitions::Definitions;
use crate::finish::Report;
use crate::live::Waiting;
use crate::metrics::Metrics;
use crate::peers::Peers;
use crate::roster::Roster;
use crate::rush::Rush;
use crate::standing::Known;
use crate::steady::Steadiness;
use model::ids::DispatcherId;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::Store;
use tokio::sync::{Notify, mpsc};

/// What the loops share.
pub struct Shared {
    /// Drawn at the process's start.
    pub id: DispatcherId,
    /// As configured.
    pub config: DispatcherConfig,
    /// The durations of it.
    pub terms: Terms,
    /// The cell's database.
    pub store: Store,
    /// Instruments.
    pub metrics: Metrics,
    /// Definitions that attempts execute.
    pub definitions: Definitions,
    /// Where ends and starts of attempts go to be recorded.
    pub reports: mpsc::Sender<Report>,
    /// Held from the begin of a claim until its runs are in the roster, and while leases are compared with the roster:
    /// a lease that is being handed out must not look like one that never was.
    pub claiming: tokio::sync::Mutex<()>,
    /// There may be work: a run was queued, a worker has come.
    pub work: Notify,
    /// There may be a free slot.
    pub slots: Notify,
    /// An assignment seems lost: compare now.
    pub reconcile: Notify,
    /// The claim was refused because of the database's identity.
    pub identity: Notify,
    /// The database has come or gone.
    pub contact_changed: Notify,
    /// Tokens that may ask while it is gone.
    pub known: Known,
    /// With which tokens workers are connected.
    pub bearers: Bearers,
    /// What running attempts show.
    pub live: Waiting,
    /// Whether the database's clock can be believed.
    pub steadiness: Steadiness,
    roster: Mutex<Roster>,
    contact: Mutex<Contact>,
    peers: Mutex<Peers>,
    pulse: Mutex<(Instant, u64)>,
    rush: Mutex<Rush>,
    epoch_ready: AtomicBool,
    draining: AtomicBool,
}

impl Shared {
    /// A dispatcher that knows nobody, has renewed nothing and may not claim.
    pub fn new(config: DispatcherConfig, store: Store, reports: mpsc::Sender<Report>) -> Self {
        Self {
            id: DispatcherId::random(),
            terms: config.terms(),
            live: Waiting::default(),
            steadiness: Steadiness::new(config.clock_jump_guard()),
            config,
            store,
            metrics: Metrics::new(),
            definitions: Definitions::default(),
            reports,
            claiming: tokio::sync::Mutex::new(()),
            work: Notify::new(),
            slots: Notify::new(),
            reconcile: Notify::new(),
            identity: Notify::new(),
            contact_changed: Notify::new(),
            known: Known::default(),
            bearers: Bearers::default(),
            roster: Mutex::default(),
            contact: Mutex::default(),
            peers: Mutex::default(),
            pulse: Mutex::new((Instant::now(), 0)),
            rush: Mutex::default(),
            epoch_ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// The roster, locked; never across an await.
    pub fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The contact with the database, locked; never across an await.
    pub fn contact(&self) -> MutexGuard<'_, Contact> {
        self.contact.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leave to give runs away, for whoever has been in contact since `since`; none when that is over.
    pub fn reaping(&self, since: Instant) -> Option<Reaping<'_>> {
        self.contact().begin_reaping(since).then(|| Reaping { shared: self, begun: Instant::now() })
    }

    /// The other dispatchers, locked; never across an await.
    pub fn peers(&self) -> MutexGuard<'_, Peers> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether reports give way to claims, locked; never across an await.
    pub fn rush(&self) -> MutexGuard<'_, Rush> {
        self.rush.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This process turns. The gap since the last pulse, if it is `limit` or longer, and how many such gaps there were.
    pub fn pulse(&self, now: Instant, limit: Duration) -> (Option<Duration>, u64) {
        let mut pulse = self.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let (last, gaps) = &mut *pulse;
        let gap = Some(now.saturating_duration_since(*last)).filter(|gap| *gap >= limit);
        *last = now;
        *gaps += u64::from(gap.is_some());
        (gap, *gaps)
    }

    /// Whether the epoch fits the database, as far as we know.
    pub fn epoch_ready(&self) -> bool {
        self.epoch_ready.load(Ordering::Acquire)
    }

    /// Lets claims go on, or stops them.
    pub fn set_epoch_ready(&self, ready: bool) {
        self.epoch_ready.store(ready, Ordering::Release);
        if ready {
            self.work.notify_one();
        } else {
            self.identity.notify_one();
        }
    }

    /// True once the process is about to end.
    pub fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// From now on nobody is taken in.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }
}

/// Leave to give runs away; while it is held, nobody is told that we are without the database.
pub struct Reaping<'a> {
    shared: &'a Shared,
    begun: Instant,
}

impl Reaping<'_> {
    /// How long ago it was decided who is gone.
    pub fn age(&self) -> Duration {
        self.begun.elapsed()
    }
}

#[cfg(test)]
impl Reaping<'_> {
    /// As if it had been decided then.
    pub(crate) fn decided_at(mut self, then: Instant) -> Self {
        self.begun = then;
        self
    }
}

impl Drop for Reaping<'_> {
    fn drop(&mut self) {
        self.shared.contact().end_reaping();
    }
}
