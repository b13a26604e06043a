//! What every watchdog sees for itself, leading or not: whether PostgreSQL and etcd answer, and whether fences refuse all.
//!
//! Invariant: it needs neither leadership nor fence, because it speaks of what keeps anybody from having them. Through the
//! database one alert of a kind is open whoever writes it; without the database receivers fold by the key.

use super::direct::{Sender, Telling};
use super::known::{self, Known};
use super::watch::Settings;
use super::write::Write;
use crate::metrics::Metrics;
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::TenantId;
use model::outage::{Look, Outage};
use model::system_health::{Previous, Refused, Standing, Trouble, judge, settle, standing_conditions};
use service::egress::Egress;
use service::health::Beat;
use service::runtime::chain;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::fence::{self, Fence};
use store::{Store, StoreError, clock, system_alert};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How often it looks.
const EVERY: Duration = Duration::from_secs(1);

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(3);

/// How often it learns whom to tell.
const LEARN_EVERY: Duration = Duration::from_secs(60);

/// How often it learns what others have told.
const ADOPT_EVERY: Duration = Duration::from_secs(10);

/// How long the ends of outages may still be told when the watchdog ends.
const LAST_WORDS_MAX: Duration = Duration::from_secs(5);

/// What it works with.
pub struct Stand {
    /// What is watched, and where what is wrong is written.
    pub store: Store,
    /// What is watched.
    pub etcd: election::Client,
    /// The way out when the database is gone.
    pub egress: Egress,
    /// For one answer of a receiver.
    pub delivery_timeout: Duration,
    /// The cell's name.
    pub cell: String,
    /// From where on something is wrong.
    pub settings: Settings,
    /// Tells the delivery loop that something was put into the outbox.
    pub poke: Arc<Notify>,
    /// Where it counts.
    pub metrics: Metrics,
}

/// What it remembers from look to look.
struct Memory {
    database: Outage,
    etcd: Outage,
    previous: Previous,
    adopted: Option<Instant>,
    learned: Option<Instant>,
    known: Known,
    number: i64,
    telling: Option<Telling>,
    ending: Vec<JoinSet<()>>,
}

/// What the database says.
struct Database {
    at: DateTime<Utc>,
    fences: Vec<Fence>,
    next_outage: i64,
}

impl Stand {
    /// Looks until `shutdown`.
    pub async fn run(self, beat: Beat, shutdown: CancellationToken) {
        let now = Instant::now();
        let mut memory = Memory {
            database: Outage::new(self.settings.silence, now),
            etcd: Outage::new(self.settings.silence, now),
            previous: Previous::default(),
            adopted: None,
            learned: None,
            known: Known::default(),
            number: 0,
            telling: None,
            ending: Vec::new(),
        };
        while !shutdown.is_cancelled() {
            beat.beat();
            let began = Instant::now();
            self.look(&mut memory).await;
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = tokio::time::sleep(EVERY.saturating_sub(began.elapsed())) => {}
            }
        }
        let ends = async {
            for ending in memory.ending {
                ending.join_all().await;
            }
        };
        if timeout(LAST_WORDS_MAX, ends).await.is_err() {
            tracing::warn!("Not every channel could be told that PostgreSQL is back");
        }
        beat.done();
    }

    async fn look(&self, memory: &mut Memory) {
        let (database, etcd) = tokio::join!(
            timeout(ANSWER_MAX, self.ask_database()),
            timeout(ANSWER_MAX, election::revision(&self.etcd)),
        );
        let (database, etcd) = (database.ok().and_then(Result::ok), etcd.ok().and_then(Result::ok));
        let now = Instant::now();
        match memory.database.look(database.is_some(), now) {
            Look::Nothing => {}
            Look::Gone { since } => self.tell_gone(memory, since),
            Look::Back { lasted } => self.tell_back(memory, lasted).await,
        }
        // Its news is told by way of the alert, from `since` on.
        let _ = memory.etcd.look(etcd.is_some(), now);
        self.metrics.reaches(database.is_some(), etcd.is_some());
        memory.ending.retain_mut(|ending| {
            while ending.try_join_next().is_some() {}
            !ending.is_empty()
        });
        let Some(database) = database else { return };
        memory.number = database.next_outage;
        if let Err(error) = self.go_on(memory, &database, etcd).await {
            tracing::warn!(
                error = chain(&error),
                "What keeps others from leading can't be written; trying again"
            );
        }
    }

    async fn ask_database(&self) -> Result<Database, StoreError> {
        let at = clock::now(&self.store).await?;
        let fences = fence::list(&self.store).await?;
        Ok(Database { at, fences, next_outage: system_alert::next_outage(&self.store).await? })
    }

    /// With the database: learns, and tells of etcd and fences.
    async fn go_on(
        &self,
        memory: &mut Memory,
        database: &Database,
        etcd: Option<i64>,
    ) -> Result<(), StoreError> {
        let is_due = |last: Option<Instant>, every| last.is_none_or(|last: Instant| last.elapsed() >= every);
        if is_due(memory.adopted, ADOPT_EVERY) {
            let open = system_alert::open(&self.store).await?;
            let ours = |kind| matches!(kind, Trouble::EtcdUnreachable | Trouble::FenceRefused);
            memory.previous.adopt(open.into_iter().filter(|(kind, _)| ours(*kind)));
            memory.adopted = Some(Instant::now());
        }
        let standing = Standing {
            etcd_silent: memory.etcd.since().map(|since| database.at - age(since)),
            refused: etcd.map(|etcd| refused(&database.fences, etcd)),
        };
        let (looked, found) = standing_conditions(&standing, database.at);
        let news = judge(&looked, &found, &mut memory.previous, Instant::now());
        if !news.is_empty() {
            let write = Write { term: None, runbooks: &self.settings.runbooks };
            if write.run(&self.store, &news).await? > 0 {
                self.poke.notify_one();
            }
            settle(&mut memory.previous, &news);
        }
        if is_due(memory.learned, LEARN_EVERY) {
            let known = known::look(&self.store).await?;
            report_unreadable(&memory.known, &known);
            memory.known = known;
            memory.learned = Some(Instant::now());
            self.metrics.knows(memory.known.whom.len());
        }
        Ok(())
    }

    fn tell_gone(&self, memory: &mut Memory, since: Instant) {
        tracing::error!(
            silent_ms = since.elapsed().as_millis() as u64,
            channels = memory.known.whom.len(),
            outage.number = memory.number,
            "PostgreSQL does not answer: telling the channels that are known"
        );
        let sender = Sender {
            egress: self.egress.clone(),
            timeout: self.delivery_timeout,
            cell: self.cell.clone(),
            runbooks: self.settings.runbooks.clone(),
        };
        memory.telling = Some(sender.begin(&memory.known.whom, memory.number, Utc::now() - age(since)));
    }

    async fn tell_back(&self, memory: &mut Memory, lasted: Duration) {
        let Some(telling) = memory.telling.take() else { return };
        tracing::info!(
            outage.number = telling.number,
            lasted_ms = lasted.as_millis() as u64,
            "PostgreSQL is back"
        );
        let detail = format!("PostgreSQL did not answer for {} seconds", lasted.as_secs());
        let outage = system_alert::Outage {
            number: telling.number,
            alert: telling.alert_id,
            tenant: TenantId::DEFAULT,
            lasted,
            detail: &detail,
        };
        // Crash window: told, not kept. The next outage has the same number, and receivers may fold it into this one.
        if let Err(error) = system_alert::keep_outage(&self.store, outage).await {
            tracing::warn!(error = chain(&error), outage.number = telling.number, "An outage can't be kept");
        }
        memory.ending.push(telling.end(lasted));
    }
}

/// Says once of each channel that it can't be told.
fn report_unreadable(before: &Known, now: &Known) {
    for (id, channel) in &now.unreadable {
        if before.unreadable.get(id) != Some(channel) {
            tracing::warn!(
                tenant.id = %channel.tenant_id,
                channel.name = channel.name,
                error = channel.problem,
                "This release can't read where a channel leads: it would not be told that PostgreSQL is gone"
            );
        }
    }
}

/// The fences that name a leadership which etcd has not counted to.
fn refused(fences: &[Fence], etcd: i64) -> Vec<Refused> {
    let ahead = fences.iter().filter(|fence| fence.revision > etcd);
    let refused = ahead.map(|fence| Refused {
        role: fence.role.clone(),
        stored: fence.revision,
        etcd,
        raised_at: fence.raised_at,
    });
    refused.collect()
}

fn age(since: Instant) -> TimeDelta {
    TimeDelta::from_std(since.elapsed()).unwrap_or(TimeDelta::MAX)
}
