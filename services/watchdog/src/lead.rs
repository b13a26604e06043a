//! Leading: campaigns, raises the fence, and checks every second for as long as it may trust its leadership.
//!
//! Invariant: nothing is judged before the fence names this leadership, and nothing after its lease is no longer
//! trusted; what a frozen leader would still write is refused by the fence. A database that can't be reached ends
//! no leadership: no other watchdog could write either.

use crate::check::{self, Limits, Memory, Summary};
use crate::metrics::Metrics;
use crate::system::{self, Heartbeat, Watch, group};
use election::{Candidate, Leadership, Role};
use model::clock_guard::{Guard, Verdict};
use model::ids::HolderId;
use service::health::Beat;
use service::refusal::Refusal;
use service::runtime::chain;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::fence::{self, Raised, Term};
use store::{Store, StoreError, clock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How long a failed step of leading waits before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// What leading works with.
pub struct Lead {
    /// Where it judges.
    pub store: Store,
    /// Where it campaigns.
    pub etcd: election::Client,
    /// As whom.
    pub candidate: Candidate,
    /// How much one transaction takes on.
    pub limits: Limits,
    /// How often it checks.
    pub every: Duration,
    /// How far the clocks may differ from one look to the next.
    pub clock_jump_guard: Option<Duration>,
    /// How the system itself is watched.
    pub system: system::Settings,
    /// Tells somebody outside that checks run.
    pub heartbeat: Option<Heartbeat>,
    /// Tells the delivery loop that something was put into the outbox.
    pub poke: Arc<Notify>,
    /// Where it counts.
    pub metrics: Metrics,
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// We are to stop.
    Shutdown,
    /// Its lease can no longer be trusted.
    Lost,
    /// The fence names another one.
    Fenced,
    /// The fence has a revision that no leadership of this etcd can exceed, though etcd confirms ours.
    Refused { stored: i64 },
}

/// One leadership while it lasts.
struct Reign {
    term: Term,
    memory: Memory,
    guard: Guard,
    /// None until the database has said what is open.
    watch: Option<Watch>,
}

impl Lead {
    /// Campaigns and leads, again and again, until `shutdown`.
    ///
    /// # Errors
    /// When etcd will never let us campaign.
    pub async fn run(
        mut self,
        mut refusal: Refusal,
        beat: Beat,
        shutdown: CancellationToken,
    ) -> Result<(), election::ElectionError> {
        debug_assert_eq!(self.candidate.role, Role::Watchdog);
        while !shutdown.is_cancelled() {
            self.metrics.leads(false);
            let Some(leadership) = self.campaign(&mut refusal, &beat, &shutdown).await? else { break };
            let term = Term {
                role: fence::Role::Watchdog,
                revision: leadership.revision(),
                holder: HolderId(leadership.uuid()),
            };
            let end = self.lead(term, &leadership, &mut refusal, &beat, &shutdown).await;
            tracing::info!(term = term.revision, end = ?end, "No longer leading");
            if let Err(error) = leadership.resign().await {
                tracing::warn!(
                    term = term.revision,
                    error = chain(&error),
                    "Resigning failed; the lease ends it"
                );
            }
            match end {
                End::Fenced => pause(AGAIN_AFTER, &shutdown).await,
                End::Refused { stored } => {
                    let wait = refusal.refused(term.revision, stored);
                    self.stand_back(wait, &mut refusal, &beat, &shutdown).await;
                }
                End::Shutdown | End::Lost => {}
            }
        }
        self.metrics.leads(false);
        beat.done();
        Ok(())
    }

    async fn campaign(
        &self,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Result<Option<Leadership>, election::ElectionError> {
        let campaign = election::campaign(&self.etcd, &self.candidate, shutdown.clone());
        tokio::pin!(campaign);
        loop {
            // A stand-by waits for as long as another one leads: that is no loop that stands still.
            beat.beat();
            tokio::select! {
                won = &mut campaign => return won,
                stored = self.look(refusal.is_on()) => stored.into_iter().for_each(|stored| refusal.saw(stored)),
            }
        }
    }

    /// Waits a little; `at_fence`, then looks which revision the fence has.
    async fn look(&self, at_fence: bool) -> Option<i64> {
        tokio::time::sleep(AGAIN_AFTER).await;
        if !at_fence {
            return None;
        }
        // A database that does not answer has not been reset either.
        let fences = fence::list(&self.store).await.unwrap_or_default();
        let ours = fences.iter().find(|fence| fence.role == fence::Role::Watchdog.as_str());
        ours.map(|fence| fence.revision)
    }

    /// Stays out of the election for `wait`, or until the fence no longer refuses us.
    async fn stand_back(
        &self,
        wait: Duration,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) {
        let began = Instant::now();
        while refusal.is_on() && began.elapsed() < wait {
            beat.beat();
            tokio::select! {
                () = shutdown.cancelled() => return,
                stored = self.look(true) => stored.into_iter().for_each(|stored| refusal.saw(stored)),
            }
        }
    }

    async fn lead(
        &mut self,
        term: Term,
        leadership: &Leadership,
        refusal: &mut Refusal,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> End {
        if let Some(end) = self.raise(term, leadership, beat, shutdown).await {
            return end;
        }
        refusal.over();
        self.metrics.leads(true);
        tracing::info!(term = term.revision, "Leading");
        let mut reign =
            Reign { term, memory: Memory::default(), guard: Guard::new(self.clock_jump_guard), watch: None };
        let leads = || leadership.valid_for().is_some();
        loop {
            beat.beat();
            let began = Instant::now();
            match self.check(&mut reign, leads).await {
                Ok(summary) => {
                    self.metrics.cycle(began.elapsed(), summary);
                    if summary.deliveries > 0 {
                        self.poke.notify_one();
                    }
                    if summary.more && !shutdown.is_cancelled() && leads() {
                        continue;
                    }
                }
                Err(error @ StoreError::Fenced { .. }) => {
                    tracing::error!(
                        term = term.revision,
                        error = chain(&error),
                        "Deposed: the fence refused a write"
                    );
                    return End::Fenced;
                }
                Err(error) => {
                    self.metrics.cycle_failed();
                    tracing::error!(
                        term = term.revision,
                        error = chain(&error),
                        "A check failed; trying again"
                    );
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

    /// One cycle: looks at the system, then judges, so that a cause is known before what it explains; then tells of groups.
    /// What keeps the system from being looked at keeps no job from being judged.
    async fn check(&mut self, reign: &mut Reign, leads: impl Fn() -> bool) -> Result<Summary, StoreError> {
        let term = reign.term;
        let is_steady = self.is_steady(term, &mut reign.guard).await?;
        let looked = self.look_at_system(reign, !is_steady).await;
        let mut summary = Summary::default();
        if is_steady {
            // It may have jumped while the system was looked at.
            let guard = &reign.guard;
            let latest = || guard.latest(Instant::now());
            let judged =
                check::run_once(&self.store, term, self.limits, &mut reign.memory, leads, &latest).await;
            // What can't be judged keeps nobody from being told of what was.
            let told = group::run_once(&self.store, term, &self.system).await;
            summary += judged?;
            summary.deliveries += told?;
        }
        summary.deliveries += looked?;
        if let Some(heartbeat) = self.heartbeat.as_mut().filter(|_| is_steady) {
            heartbeat.checked();
        }
        Ok(summary)
    }

    /// Looks at the system; how many deliveries that makes.
    async fn look_at_system(&self, reign: &mut Reign, jumped: bool) -> Result<usize, StoreError> {
        let watch = match &mut reign.watch {
            Some(watch) => watch,
            none => none.insert(Watch::begin(&self.store, &self.etcd, &self.system).await?),
        };
        let looked = watch.run_once(reign.term, jumped).await?;
        if let Some(silent) = looked.ticker_silent {
            self.metrics.ticker_silent(silent);
        }
        Ok(looked.deliveries)
    }

    /// Whether occurrences may be judged by the clock as it is.
    async fn is_steady(&self, term: Term, guard: &mut Guard) -> Result<bool, StoreError> {
        match guard.look(clock::now(&self.store).await?, Instant::now()) {
            Verdict::Steady => Ok(true),
            Verdict::Settling => Ok(false),
            Verdict::Jumped(by) => {
                tracing::error!(
                    term = term.revision,
                    clock.jump_ms = by.num_milliseconds(),
                    "The database's clock jumped; nothing is judged until it has been steady for 10 seconds"
                );
                Ok(false)
            }
        }
    }

    /// Raises the fence, however long the database is away; some end when the leadership ends before that.
    async fn raise(
        &self,
        term: Term,
        leadership: &Leadership,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Option<End> {
        loop {
            beat.beat();
            match fence::raise(&self.store, term).await {
                Ok(Raised::Held) => return None,
                Ok(Raised::Higher { stored } | Raised::Implausible { stored }) => {
                    // A later leadership's fence refuses us as well, but then etcd no longer confirms ours.
                    if !matches!(leadership.confirm().await, Ok(true)) {
                        return Some(End::Lost);
                    }
                    tracing::error!(
                        term = term.revision,
                        fence.refused = true,
                        fence.stored = stored,
                        "The fence can't be raised to this leadership. If etcd was rebuilt, its revisions begin anew: stop \
                         every old watchdog and run `escapement fence reset watchdog --yes`"
                    );
                    return Some(End::Refused { stored });
                }
                Err(error) => {
                    tracing::error!(
                        term = term.revision,
                        error = chain(&error),
                        "Raising the fence failed; trying again"
                    );
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Some(End::Shutdown),
                () = leadership.lost() => return Some(End::Lost),
                () = tokio::time::sleep(AGAIN_AFTER) => {}
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
