//! The leader's look at the system: tickers, dispatchers, workers, clocks, and less often what changes slowly.
//!
//! Invariant: what it tells is written under its fence. A successor goes on from the alerts that it finds open; and whoever
//! leads sees, when it looks at what changes slowly, which of them somebody has resolved.

use super::write::Write;
use crate::config::WatchdogConfig;
use chrono::{DateTime, TimeDelta, Utc};
use election::{Member, Role};
use model::system_health::{Limits, Observation, Previous, Trouble, conditions, judge, settle};
use std::time::{Duration, Instant};
use store::fence::Term;
use store::system::{self, Pulse};
use store::{Store, StoreError, system_alert};
use tokio::time::timeout;

/// An offset is not measured over an answer that took longer.
const ROUND_TRIP_MAX: Duration = Duration::from_millis(500);

/// After a moment without etcd or PostgreSQL the others may take so long to come back before they are missed: what kept us
/// from looking has kept them from working, and is told as the cause.
const GRACE: Duration = Duration::from_secs(15);

/// A channel counts as failing from this many tries in vain on.
const TRIES_MAX: i32 = 5;

/// How the system is watched.
#[derive(Debug, Clone)]
pub struct Settings {
    /// From where on something is wrong.
    pub limits: Limits,
    /// How long runs may wait for a worker.
    pub worker_wait: Duration,
    /// How often what changes slowly is looked at.
    pub look_every: Duration,
    /// How long a group gathers before it is told.
    pub group_wait: Duration,
    /// How long etcd or PostgreSQL may be silent.
    pub silence: Duration,
    /// Where the runbooks are; may be empty.
    pub runbooks: String,
}

impl Settings {
    /// As configured.
    pub fn of(config: &WatchdogConfig) -> Self {
        let millis = Duration::from_millis;
        Self {
            limits: Limits {
                ticker_silence: millis(config.ticker_silence_max_ms),
                dispatcher_silence: millis(config.dispatcher_silence_max_ms),
                clock_offset: millis(config.clock_offset_max_ms),
                lateness: millis(config.lateness_objective_ms),
                lateness_runs_min: config.lateness_runs_min.into(),
                transaction: millis(config.transaction_max_ms),
            },
            worker_wait: millis(config.worker_wait_max_ms),
            look_every: millis(config.system_look_every_ms),
            group_wait: millis(config.group_wait_ms),
            silence: millis(config.silence_max_ms),
            runbooks: config.runbooks_url.clone(),
        }
    }
}

/// The watch of one leadership.
pub struct Watch {
    store: Store,
    etcd: election::Client,
    settings: Settings,
    previous: Previous,
    /// Has looked without a break since.
    steady: Instant,
    looked: Option<Instant>,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Looked {
    /// Since a ticker finished its last cycle.
    pub ticker_silent: Option<Duration>,
    /// Deliveries that were put into the outbox.
    pub deliveries: usize,
}

impl Watch {
    /// Goes on from what is open.
    ///
    /// # Errors
    /// [`StoreError`] when the database can't be asked.
    pub async fn begin(
        store: &Store,
        etcd: &election::Client,
        settings: &Settings,
    ) -> Result<Self, StoreError> {
        let previous = Previous::open(system_alert::open(store).await?);
        let (store, etcd, settings) = (store.clone(), etcd.clone(), settings.clone());
        Ok(Self { store, etcd, settings, previous, steady: Instant::now(), looked: None })
    }

    /// Looks once; `jumped` while the database's clock is not believed.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when a later watchdog leads; else whatever the database failed with. What could not be
    /// written is told at the next look.
    pub async fn run_once(&mut self, term: Term, jumped: bool) -> Result<Looked, StoreError> {
        let looked = self.look(term, jumped).await;
        if looked.is_err() {
            self.steady = Instant::now();
        }
        looked
    }

    async fn look(&mut self, term: Term, jumped: bool) -> Result<Looked, StoreError> {
        let (observation, ticker_silent) = self.observe(jumped).await?;
        if observation.outlook.is_some() {
            self.previous.adopt(system_alert::open(&self.store).await?);
        }
        let (mut looked, found) = conditions(&observation, &self.settings.limits);
        if self.steady.elapsed() < GRACE {
            looked.retain(|kind| {
                !matches!(kind, Trouble::NoTicker | Trouble::NoDispatcher | Trouble::NoWorker)
            });
        }
        let news = judge(&looked, &found, &mut self.previous, Instant::now());
        let mut deliveries = 0;
        if !news.is_empty() {
            let write = Write { term: Some(term), runbooks: &self.settings.runbooks };
            deliveries = write.run(&self.store, &news).await?;
            settle(&mut self.previous, &news);
        }
        Ok(Looked { ticker_silent, deliveries })
    }

    async fn observe(&mut self, clock_jumped: bool) -> Result<(Observation, Option<Duration>), StoreError> {
        let (sent, sent_at) = (Instant::now(), Utc::now());
        let pulse = system::observe(&self.store).await?;
        let clock_offset = offset(sent_at, sent.elapsed(), pulse.server_clock);
        let limits = &self.settings.limits;
        let unserved =
            system::unserved(&self.store, self.settings.worker_wait, limits.dispatcher_silence).await?;
        let is_due = self.looked.is_none_or(|looked| looked.elapsed() >= self.settings.look_every);
        let outlook = if is_due {
            self.looked = Some(Instant::now());
            let tickers = self.tickers().await;
            Some(system::outlook(&self.store, schedule::tzdata_version(), tickers, TRIES_MAX).await?)
        } else {
            None
        };
        let Pulse { at, ticker_cycle, dispatcher_seen, .. } = pulse;
        let watched_since = TimeDelta::from_std(self.steady.elapsed()).map_or(at, |steady| at - steady);
        let ticker_silent = ticker_cycle.and_then(|last| (at - last).to_std().ok());
        let observation = Observation {
            at,
            watched_since,
            ticker_cycle,
            dispatcher_seen,
            unserved,
            clock_offset,
            clock_jumped,
            outlook,
        };
        Ok((observation, ticker_silent))
    }

    /// The tickers' timezone databases; none when etcd does not answer at once, for which nobody is kept waiting.
    async fn tickers(&self) -> Option<Vec<(String, String)>> {
        let members = timeout(ROUND_TRIP_MAX, election::members(&self.etcd, Role::Ticker)).await;
        members.ok()?.ok().map(tzdata_of)
    }
}

/// The names of members, and the timezone databases that they say they have.
fn tzdata_of(members: Vec<Member>) -> Vec<(String, String)> {
    members.into_iter().filter_map(|member| Some((member.name, member.tzdata?))).collect()
}

/// The server's clock minus ours, as if it had been read in the middle of the round trip.
fn offset(sent_at: DateTime<Utc>, took: Duration, server: DateTime<Utc>) -> Option<TimeDelta> {
    if took > ROUND_TRIP_MAX {
        return None;
    }
    Some(server - (sent_at + TimeDelta::from_std(took / 2).ok()?))
}
