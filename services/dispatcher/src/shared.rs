//! What the loops of one dispatcher share.

use crate::config::{DispatcherConfig, Terms};
use crate::definitions::Definitions;
use crate::finish::Report;
use crate::metrics::Metrics;
use crate::roster::Roster;
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
    roster: Mutex<Roster>,
    renewals: Mutex<Renewals>,
    pulse: Mutex<(Instant, u64)>,
    epoch_ready: AtomicBool,
    draining: AtomicBool,
}

impl Shared {
    /// A dispatcher that knows nobody, has renewed nothing and may not claim.
    pub fn new(config: DispatcherConfig, store: Store, reports: mpsc::Sender<Report>) -> Self {
        Self {
            id: DispatcherId::random(),
            terms: config.terms(),
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
            roster: Mutex::default(),
            renewals: Mutex::default(),
            pulse: Mutex::new((Instant::now(), 0)),
            epoch_ready: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// The roster, locked; never across an await.
    pub fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A renewal has committed that was sent at `asked`.
    pub fn renewed(&self, asked: Instant) {
        let mut renewals = self.renewals();
        renewals.last = Some(asked);
        renewals.in_contact_since.get_or_insert(asked);
    }

    /// A renewal has failed.
    pub fn out_of_contact(&self) {
        self.renewals().in_contact_since = None;
    }

    /// Since when every renewal has committed; none while the last one failed.
    pub fn in_contact_since(&self) -> Option<Instant> {
        self.renewals().in_contact_since
    }

    /// How long ago the last committed renewal was sent; for ever when there was none.
    pub fn renewal_age(&self, now: Instant) -> Duration {
        self.renewals().last.map_or(Duration::from_secs(86_400), |asked| now.saturating_duration_since(asked))
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

    fn renewals(&self) -> MutexGuard<'_, Renewals> {
        self.renewals.lock().unwrap_or_else(PoisonError::into_inner)
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

/// What is known of our own renewals.
#[derive(Debug, Default)]
struct Renewals {
    /// When the last committed one was sent.
    last: Option<Instant>,
    /// When the first of an unbroken row of committed ones was sent.
    in_contact_since: Option<Instant>,
}
