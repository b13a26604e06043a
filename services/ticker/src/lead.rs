//! Leading: campaigns, raises the fence, begins a term, and plans every second for as long as it may trust itself.
//!
//! Invariant: nothing is planned before the fence names this leadership, and nothing after its lease is no longer
//! trusted; what a frozen leader would still write is refused by the fence. How a leadership ended is written as its
//! last act, under the fence like everything else, so that a deposed one learns of it and says so.

use crate::clock::{Guard, Verdict};
use crate::metrics::Metrics;
use crate::plan::{Planner, Summary};
use crate::upkeep::Upkeep;
use chrono::{DateTime, Utc};
use election::{Candidate, ElectionError, Leadership, Role};
use model::ids::HolderId;
use service::health::{Beat, Condition};
use service::runtime::chain;
use std::time::{Duration, Instant};
use store::fence::{self, Raised, Term};
use store::term::{self, Began, Process};
use store::{Store, StoreError, clock};
use tokio_util::sync::CancellationToken;

/// How long a failed step of leading waits before it is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How long the last words of a leadership may take: a successor waits for its end.
const LAST_WORDS_MAX: Duration = Duration::from_secs(3);

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
    /// Whether the database answers.
    pub database: Condition,
}

/// Why a leadership ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// We are to stop.
    Shutdown,
    /// Its lease can no longer be trusted.
    Lost,
    /// The fence names another one, or can't be raised.
    Fenced,
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
    guard: Guard,
    /// When a transaction was last committed, or could not be expected.
    committed: Instant,
}

impl Lead {
    /// Campaigns and leads, again and again, until `shutdown`.
    ///
    /// # Errors
    /// When etcd will never let us campaign.
    pub async fn run(self, beat: Beat, shutdown: CancellationToken) -> Result<(), ElectionError> {
        debug_assert_eq!(self.candidate.role, Role::Ticker);
        while !shutdown.is_cancelled() {
            self.metrics.stands_by();
            let Some(leadership) = self.campaign(&beat, &shutdown).await? else { break };
            let term = Term {
                role: fence::Role::Ticker,
                revision: leadership.revision(),
                holder: HolderId(leadership.uuid()),
            };
            let end = self.lead(term, &leadership, &beat, &shutdown).await;
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
            if matches!(end, End::Fenced | End::Mute) {
                pause(AGAIN_AFTER, &shutdown).await;
            }
        }
        self.metrics.stands_by();
        beat.done();
        Ok(())
    }

    async fn campaign(
        &self,
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
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }

    async fn lead(
        &self,
        term: Term,
        leadership: &Leadership,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> End {
        let planner =
            Planner { store: self.store.clone(), term, limits: self.limits, metrics: self.metrics.clone() };
        let mut reign = Reign {
            leadership,
            planner,
            upkeep: Upkeep::default(),
            guard: Guard::new(self.clock_jump_guard),
            committed: Instant::now(),
        };
        if let Some(end) = self.begin(&mut reign, beat, shutdown).await {
            return end;
        }
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
        let now = clock::now(&self.store).await?;
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
        let summary = reign.planner.run_once(ledger, leads).await?;
        self.mark(term, now, (!summary.more).then(|| now + self.limits.lookahead)).await?;
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

    /// Raises the fence and begins the term, however long the database is away; some end when the leadership ends
    /// before that.
    async fn begin(&self, reign: &mut Reign<'_>, beat: &Beat, shutdown: &CancellationToken) -> Option<End> {
        let term = reign.planner.term;
        loop {
            beat.beat();
            match self.raise(term).await {
                Ok(Ok(began)) => {
                    reign.committed = Instant::now();
                    self.database.met();
                    welcome(term, &began);
                    return None;
                }
                Ok(Err(refused)) => {
                    tracing::error!(
                        term = term.revision,
                        fence.refused = true,
                        fence.answer = ?refused,
                        "The fence refused this leadership: a higher one is stored. If etcd was rebuilt, its revisions \
                         begin anew: stop every ticker and run `escapement fence reset`"
                    );
                    self.metrics.refused();
                    return Some(End::Fenced);
                }
                Err(StoreError::Fenced { .. }) => return Some(End::Fenced),
                Err(error) => {
                    self.failed(term, &error, "Raising the fence failed; trying again");
                    if self.is_mute(reign).await {
                        return Some(End::Mute);
                    }
                }
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Some(End::Shutdown),
                () = reign.leadership.lost() => return Some(End::Lost),
                () = tokio::time::sleep(AGAIN_AFTER) => {}
            }
        }
    }

    async fn raise(&self, term: Term) -> Result<Result<Began, Raised>, StoreError> {
        let raised = fence::raise(&self.store, term).await?;
        if raised != Raised::Held {
            return Ok(Err(raised));
        }
        let operation = "begin a leadership";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        let process =
            Process { pid: self.candidate.pid, name: &self.candidate.name, http: &self.candidate.http };
        let began = term::begin(&tx, term, process).await?;
        tx.commit().await?;
        Ok(Ok(began))
    }

    /// After a refusal: when etcd says that we still lead, the database forgot us in a failover, and the fence is
    /// raised again; a later leadership's can't be.
    async fn raise_again(
        &self,
        reign: &mut Reign<'_>,
        beat: &Beat,
        shutdown: &CancellationToken,
    ) -> Option<End> {
        let term = reign.planner.term;
        let leads = matches!(reign.leadership.confirm().await, Ok(true));
        if !leads {
            self.refused(term);
            return Some(End::Fenced);
        }
        tracing::warn!(
            term = term.revision,
            "The fence does not name this leadership, which etcd confirms; raising it"
        );
        self.begin(reign, beat, shutdown).await
    }

    fn refused(&self, term: Term) {
        self.metrics.refused();
        tracing::error!(
            term = term.revision,
            fence.refused = true,
            "Deposed: the fence refused a write of this leadership, a later one holds it"
        );
    }

    /// The last act of a leadership: notes how it ended.
    async fn last_words(&self, term: Term, end: End) {
        let how = match end {
            End::Shutdown => term::End::Resigned,
            End::Lost => term::End::Lost,
            End::Fenced => return self.note_refusal(term).await,
            End::Mute => return, // it can't write
        };
        match self.end(term, how).await {
            Ok(()) => {}
            Err(StoreError::Fenced { .. }) => {
                self.refused(term);
                self.note_refusal(term).await;
            }
            Err(error) => self.failed(term, &error, "How this leadership ended could not be noted"),
        }
    }

    async fn end(&self, term: Term, how: term::End) -> Result<(), StoreError> {
        let operation = "end a leadership";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, term).await?;
        term::end(&tx, term, how).await?;
        tx.commit().await
    }

    async fn note_refusal(&self, term: Term) {
        if let Err(error) = term::refused(&self.store, term).await {
            self.failed(term, &error, "A refused leadership could not be noted");
        }
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

/// Says what this leadership found, and whether it goes on where its predecessor stopped.
fn welcome(term: Term, began: &Began) {
    tracing::info!(
        term = term.revision,
        term.predecessor = began.predecessor,
        term.gap_ms = began.gap_ms,
        term.predecessor_mark = began.planned_through.map(tracing::field::display),
        term.first_occurrence = began.first_occurrence.map(tracing::field::display),
        "Leading"
    );
    if let (Some(mark), Some(first)) = (began.planned_through, began.first_occurrence)
        && first <= mark
    {
        tracing::warn!(
            term = term.revision,
            term.predecessor_mark = %mark,
            term.first_occurrence = %first,
            "An occurrence before the predecessor's mark is not planned: its job was changed since, or the database lost it"
        );
    }
}

async fn pause(time: Duration, shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(time) => {}
    }
}
