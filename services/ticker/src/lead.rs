//! Leading: campaigns, raises the fence, begins a term, and plans every second for as long as it may trust itself.
//!
//! Invariant: nothing is planned before the fence names this leadership, and nothing after its lease is no longer
//! trusted; what a frozen leader would still write is refused by the fence. How a leadership ended is written as its
//! last act, under the fence like everything else, so that a deposed one learns of it and says so.

mod ends;
mod refusal;

use crate::dates::Dates;
use crate::metrics::Metrics;
use crate::plan::{Planner, Summary};
use crate::reach::Reach;
use crate::tzdata::Tzdata;
use crate::upkeep::{self, Upkeep};
use chrono::{DateTime, Utc};
use election::{Candidate, ElectionError, Leadership, Role};
use model::clock_guard::{Guard, Verdict};
use model::ids::HolderId;
use service::health::{Beat, Condition};
use service::refusal::Refusal;
use service::runtime::chain;
use std::time::{Duration, Instant};
use store::fence::{self, Term};
use store::term;
use store::{Store, StoreError, clock};
use tokio_util::sync::CancellationToken;

/// How long a failed step of leading waits before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the last words of a leadership may take: a successor waits for its end.
const LAST_WORDS_MAX: Duration = Duration::from_secs(3);

/// How long a stand-by waits for the database's answer.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// What leading works with.
pub struct Lead {
    /// Where it plans.
    pub store: Store,
    /// Where it campaigns.
    pub etcd: election::Client,
    /// As whom.
    pub candidate: Candidate,
    /// How much one transaction takes on.
    pub limits: crate::plan::Limits,
    /// How often it plans.
    pub every: Duration,
    /// How far the clocks may differ from one look to the next.
    pub clock_jump_guard: Option<Duration>,
    /// How long it may commit nothing while another could lead.
    pub write_silence_max: Duration,
    /// Where it counts.
    pub metrics: Metrics,
    /// The calendars that this process has read.
    pub dates: Dates,
    /// When this process could not reach the database.
    pub reach: Reach,
    /// Whether the database answers.
    pub database: Condition,
    /// How long things are kept.
    pub retention: upkeep::Policy,
    /// Where upkeep counts.
    pub upkeep_metrics: upkeep::Metrics,
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// We are to stop.
    Shutdown,
    /// Its lease can no longer be trusted.
    Lost,
    /// The fence names a later one.
    Fenced,
    /// The fence can't be raised, although etcd says that we lead.
    Refused {
        /// What it names.
        stored: i64,
    },
    /// It commits nothing, and somebody else may be able to.
    Mute,
}

/// What a cycle came to.
enum Cycle {
    /// Everything due is planned, or more follows at once.
    Planned(Summary),
    /// The clocks are not to be believed.
    Stopped,
}

/// One leadership while it lasts.
struct Reign<'a> {
    leadership: &'a Leadership,
    planner: Planner,
    upkeep: Upkeep,
    tzdata: Tzdata,
    guard: Guard,
    /// When a transaction was last committed, or could not be expected.
    committed: Instant,
}

impl Lead {
    /// Campaigns and leads, again and again, until `shutdown`.
    ///
    /// # Errors
    /// When etcd will never let us campaign.
    pub async fn run(
        self,
        mut refusal: Refusal,
        beat: Beat,
        shutdown: CancellationToken,
    ) -> Result<(), ElectionError> {
        debug_assert_eq!(self.candidate.role, Role::Ticker);
        while !shutdown.is_cancelled() {
            self.metrics.stands_by();
            let Some(leadership) = self.campaign(&mut refusal, &beat, &shutdown).await? else { break };
            let term = Term {
                role: fence::Role::Ticker,
                revision: leadership.revision(),
                holder: HolderId(leadership.uuid()),
            };
            let end = self.lead(term, &leadership, &mut refusal, &beat, &shutdown).await;
            self.metrics.stands_by();
            tracing::info!(term = term.revision, term.end = ?end, "This leadership is over");
            if tokio::time::timeout(LAST_WORDS_MAX, self.last_words(term, end)).await.is_err() {
                tracing::warn!(term = term.revision, "How this leadership ended could not be noted in time");
            }
            if let Err(error) = leadership.resign().await {
                tracing::warn!(
                    term = term.revision,
                    error = chain(&error),
                    "Resigning failed; the lease ends it"
                );
            }
            match end {
                End::Fenced | End::Mute => pause(AGAIN_AFTER, &shutdown).await,
                End::Refused { stored } => {
                    let wait = refusal.refused(term.revision, stored);
                    self.stand_back(wait, &mut refusal, &beat, &shutdown).await;
                }
                End::Shutdown | End::Lost => {}
            }
        }
        self.metrics.stands_by();
        beat.done();
        Ok(())
    }

    async fn campaign(
        &self,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Result<Option<Leadership>, ElectionError> {
        let campaign = election::campaign(&self.etcd, &self.candidate, shutdown.clone());
        tokio::pin!(campaign);
        loop {
            // A stand-by waits for as long as another one leads: that is no loop that stands still.
            beat.beat();
            tokio::select! {
                won = &mut campaign => return won,
                () = self.watch(refusal) => {}
            }
        }
    }

    /// Waits a little, then looks whether the database answers: a stand-by may have to say why something was missed.
    async fn watch(&self, refusal: &mut Refusal) {
        tokio::time::sleep(AGAIN_AFTER).await;
        self.look_at_fence(refusal).await;
        if !matches!(tokio::time::timeout(LOOK_MAX, self.now()).await, Ok(Ok(_))) {
            self.reach.failed();
        }
    }

    /// The cell's clock, and whether the database can be reached.
    async fn now(&self) -> Result<DateTime<Utc>, StoreError> {
        let now = clock::now(&self.store).await;
        match &now {
            Ok(now) => self.reach.succeeded(*now),
            Err(_) => self.reach.failed(),
        }
        now
    }

    async fn lead(
        &self,
        term: Term,
        leadership: &Leadership,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> End {
        let planner = Planner {
            store: self.store.clone(),
            term,
            limits: self.limits,
            metrics: self.metrics.clone(),
            dates: self.dates.clone(),
            reach: self.reach.clone(),
        };
        let mut reign = Reign {
            leadership,
            planner,
            upkeep: Upkeep::new(self.retention, self.upkeep_metrics.clone()),
            tzdata: Tzdata::default(),
            guard: Guard::new(self.clock_jump_guard),
            committed: Instant::now(),
        };
        if let Some(end) = self.begin(&mut reign, beat, shutdown).await {
            return end;
        }
        refusal.over();
        self.metrics.leads(term.revision);
        loop {
            beat.beat();
            let began = Instant::now();
            if leadership.valid_for().is_none() {
                return End::Lost;
            }
            match self.cycle(&mut reign, shutdown).await {
                Ok(Cycle::Planned(summary)) => {
                    reign.committed = Instant::now();
                    self.database.met();
                    self.metrics.cycle(began.elapsed(), &summary);
                    if summary.more && !shutdown.is_cancelled() {
                        continue;
                    }
                }
                Ok(Cycle::Stopped) => reign.committed = Instant::now(),
                Err(StoreError::Fenced { .. }) => match self.raise_again(&mut reign, beat, shutdown).await {
                    Some(end) => return end,
                    None => continue,
                },
                Err(error) => {
                    self.metrics.cycle_failed();
                    self.failed(term, &error, "A planning cycle failed; trying again");
                    if self.is_mute(&reign).await {
                        return End::Mute;
                    }
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return End::Shutdown,
                () = leadership.lost() => return End::Lost,
                () = tokio::time::sleep(self.every.saturating_sub(began.elapsed())) => {}
            }
        }
    }

    /// One cycle: looks at the clocks, sees to the partitions, plans, and leaves the leadership's mark.
    async fn cycle(&self, reign: &mut Reign<'_>, shutdown: &CancellationToken) -> Result<Cycle, StoreError> {
        let term = reign.planner.term;
        let now = self.now().await?;
        match reign.guard.look(now, Instant::now()) {
            Verdict::Steady => {}
            Verdict::Settling => return Ok(Cycle::Stopped),
            Verdict::Jumped(by) => {
                tracing::error!(
                    term = term.revision,
                    clock.jump_ms = by.num_milliseconds(),
                    "The database's clock jumped; nothing is planned until it has been steady for 10 seconds"
                );
                return Ok(Cycle::Stopped);
            }
        }
        let horizon = reign.planner.horizon(now);
        let ledger = reign.upkeep.ledger(&self.store, term, now, horizon).await?;
        let leadership = reign.leadership;
        let leads = || !shutdown.is_cancelled() && leadership.valid_for().is_some();
        let unsettled = reign.tzdata.run_once(&self.store, term, &self.dates, &self.metrics, leads).await?;
        let summary = reign.planner.run_once(ledger, leads).await?;
        let summary = Summary { more: summary.more || unsettled, ..summary };
        self.mark(term, now, (!summary.more).then(|| now + self.limits.lookahead)).await?;
        if !summary.more && leads() {
            reign.upkeep.let_go(&self.store, term, now).await?;
        }
        Ok(Cycle::Planned(summary))
    }

    async fn mark(
        &self,
        term: Term,
        cycle_at: DateTime<Utc>,
        planned_through: Option<DateTime<Utc>>,
    ) -> Result<(), StoreError> {
        let operation = "mark a finished cycle";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        term::mark(&tx, term, cycle_at, planned_through).await?;
        tx.commit().await
    }

    fn refused(&self, term: Term) {
        self.metrics.refused();
        tracing::error!(
            term = term.revision,
            fence.refused = true,
            "Deposed: the fence refused a write of this leadership, a later one holds it"
        );
    }

    fn failed(&self, term: Term, error: &StoreError, what: &'static str) {
        let error = chain(error);
        self.database.unmet(error.as_str());
        tracing::error!(term = term.revision, error, "{what}");
    }

    /// Whether nothing was committed for too long, while another ticker is there that may be able to.
    async fn is_mute(&self, reign: &Reign<'_>) -> bool {
        if reign.committed.elapsed() < self.write_silence_max {
            return false;
        }
        match election::members(&self.etcd, Role::Ticker).await {
            Ok(members) => members.iter().any(|member| member.uuid != self.candidate.uuid),
            Err(error) => {
                tracing::warn!(error = chain(&error), "Whether another ticker could lead is not known");
                false
            }
        }
    }
}

async fn pause(time: Duration, shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}
