//! Planning: turns what the definitions ask for in the next minutes into runs, batch by batch.
//!
//! Invariant: a batch is one transaction that holds the ticker's fence first, then the ledger's floor, the cursors and
//! the backlogs of its jobs; each occurrence that it passes has a run or is counted as missed when it commits, or none
//! of it has happened. A job that can't be planned never stops the others. What becomes of an occurrence is decided in
//! [`mod@decide`] and [`crate::sweep`]; nothing is handed out here.

pub mod decide;
pub mod pace;
pub mod span;
mod write;

use crate::cause::Evidence;
use crate::dates::Dates;
use crate::metrics::Metrics;
use crate::reach::Reach;
use crate::sweep;
use crate::upkeep::Ledger;
use chrono::{DateTime, TimeDelta, Utc};
use decide::{Decision, Moment, decide};
use model::ids::JobId;
use model::run::MisfireCause;
use service::runtime::chain;
use std::collections::BTreeMap;
use std::time::Duration;
use store::fence::{self, Term};
use store::job_cursor::{self, Cursor};
use store::misfire::{self, Waiting};
use store::{Retry, Store, StoreError, Transaction, catch_up, job_change, ledger_floor, term};
use tracing::Instrument;
use write::Work;

/// Batches of one kind in a cycle at most; a backlog goes on in the next cycle, after the leadership's mark.
const BATCHES_MAX: usize = 20;

/// Tries of a batch that loses a deadlock.
const TRIES_MAX: usize = 3;

/// An occurrence younger than this can't be missed, whatever its job's grace.
const YOUNG: TimeDelta = TimeDelta::seconds(5);

/// How much a batch takes on.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How far ahead each occurrence has its run.
    pub lookahead: Duration,
    /// Jobs.
    pub jobs: usize,
    /// Occurrences of one job.
    pub occurrences_per_job: usize,
    /// Occurrences, give or take one job's.
    pub occurrences: usize,
}

/// What a cycle came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// Runs that were inserted.
    pub planned: u64,
    /// Occurrences that were missed and have no run.
    pub missed: u64,
    /// Runs that were not handed out in time, and ended.
    pub ended: u64,
    /// Runs that were not handed out in time, and run all the same.
    pub kept: u64,
    /// Jobs that can't be planned.
    pub broken: u64,
    /// More is due: the next cycle should follow at once.
    pub more: bool,
}

impl std::ops::AddAssign for Summary {
    fn add_assign(&mut self, other: Self) {
        self.planned += other.planned;
        self.missed += other.missed;
        self.ended += other.ended;
        self.kept += other.kept;
        self.broken += other.broken;
        self.more = other.more;
    }
}

/// Plans for one leadership.
#[derive(Clone)]
pub struct Planner {
    /// Where.
    pub store: Store,
    /// For whom.
    pub term: Term,
    /// How much at once.
    pub limits: Limits,
    /// Where it counts.
    pub metrics: Metrics,
    /// The calendars that it has read.
    pub dates: Dates,
    /// When the database could not be reached.
    pub reach: Reach,
}

/// Which jobs a batch is about.
#[derive(Debug, Clone)]
enum Pick {
    /// Those whose cursors are due.
    Due,
    /// Those with runs that were not handed out in time.
    Overdue,
    /// One.
    Job(JobId),
}

impl Planner {
    /// Through when occurrences are planned at `now`.
    pub fn horizon(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        now + self.limits.lookahead * 2
    }

    /// One cycle: plans what is due, then settles what was not handed out in time. `leads` is asked before each
    /// transaction.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when the fence names another leadership; else whatever the database failed with. What
    /// was committed before stays.
    pub async fn run_once(&self, ledger: Ledger, leads: impl Fn() -> bool) -> Result<Summary, StoreError> {
        let mut summary = Summary::default();
        let mut behind = false;
        for pick in [Pick::Due, Pick::Overdue] {
            for _ in 0..BATCHES_MAX {
                if !leads() {
                    return Ok(Summary { more: true, ..summary });
                }
                summary += self.patient_batch(&pick, ledger, &leads).await?;
                if !summary.more {
                    break;
                }
            }
            behind |= summary.more;
        }
        Ok(Summary { more: behind, ..summary })
    }

    /// A batch; one that loses a deadlock is tried again, one with a row that the database refuses is taken apart.
    async fn patient_batch(
        &self,
        pick: &Pick,
        ledger: Ledger,
        leads: &impl Fn() -> bool,
    ) -> Result<Summary, StoreError> {
        let mut tries = 1;
        loop {
            let mut picked = Vec::new();
            match self.batch(pick, ledger, &mut picked).await {
                Err(error) if error.retry() == Retry::AtOnce && tries < TRIES_MAX => tries += 1,
                Err(error) if error.retry() == Retry::Split => {
                    let error = chain(&error);
                    tracing::warn!(
                        term = self.term.revision,
                        jobs = picked.len(),
                        error,
                        "A batch was refused; one by one"
                    );
                    return self.one_by_one(&picked, ledger, leads).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn one_by_one(
        &self,
        jobs: &[JobId],
        ledger: Ledger,
        leads: &impl Fn() -> bool,
    ) -> Result<Summary, StoreError> {
        let mut summary = Summary::default();
        for job in jobs {
            if !leads() {
                break;
            }
            match self.batch(&Pick::Job(*job), ledger, &mut Vec::new()).await {
                Ok(one) => summary += one,
                Err(error) if error.retry() == Retry::Split => {
                    self.condemn(*job, &error).await?;
                    summary.broken += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Summary { more: true, ..summary })
    }

    /// Marks a job as broken whose rows the database refuses.
    async fn condemn(&self, job: JobId, error: &StoreError) -> Result<(), StoreError> {
        let problem = chain(error);
        tracing::error!(term = self.term.revision, job.id = %job, error = problem, "A job can't be planned: it is broken");
        let operation = "mark a job as broken";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, self.term).await?;
        let locked = job_cursor::lock(&tx, &[job]).await?;
        let broken: Vec<_> = locked.into_iter().map(|job| (job, problem.clone())).collect();
        job_cursor::mark_broken(&tx, &broken).await?;
        tx.commit().await
    }

    async fn batch(
        &self,
        pick: &Pick,
        ledger: Ledger,
        picked: &mut Vec<JobId>,
    ) -> Result<Summary, StoreError> {
        let span = tracing::info_span!("plan", term = self.term.revision);
        let traceparent = service::telemetry::traceparent(&span);
        self.batch_in_trace(pick, ledger, picked, traceparent.as_deref()).instrument(span).await
    }

    async fn batch_in_trace(
        &self,
        pick: &Pick,
        ledger: Ledger,
        picked: &mut Vec<JobId>,
        traceparent: Option<&str>,
    ) -> Result<Summary, StoreError> {
        let operation = "plan runs";
        let mut client = self.store.client(operation).await?;
        let tx = client.begin(operation).await?;
        fence::hold(&tx, self.term).await?;
        let floor = ledger_floor::hold(&tx).await?.max(ledger.from);
        *picked = self.lock(&tx, pick).await?;
        if picked.is_empty() {
            return Ok(Summary::default());
        }
        catch_up::lock(&tx, picked).await?;
        let at = job_change::now(&tx).await?;
        let waiting = misfire::waiting(&tx, picked, at).await?;
        let waiting = by_job(&waiting);
        let oldest = |job: &JobId| waiting.get(job)?.iter().map(|run| run.generation).min();
        let asked: Vec<_> = picked.iter().map(|job| (*job, oldest(job))).collect();
        let cursors = job_cursor::read(&tx, &asked).await?;
        let dates = self.dates.of(&tx, &cursors).await?;
        let worked = self.worked(&tx, &cursors, &waiting, at).await?;
        let unreachable = self.reach.outages();
        let moment = Moment {
            at,
            floor,
            horizon: self.horizon(at).min(ledger.to - TimeDelta::seconds(1)),
            lookahead: self.limits.lookahead,
            occurrences_max: self.limits.occurrences_per_job,
            evidence: Evidence { worked: &worked, revision: self.term.revision, unreachable: &unreachable },
            dates: &dates,
        };
        let work = self.decide(&cursors, &waiting, &moment);
        let written = write::write(&tx, self.term, &moment, traceparent, &work).await?;
        // Crash window: nothing of this is written, or all; the successor plans the same again, or goes on.
        tx.commit().await?;
        self.report(&work, &written);
        let full = !matches!(pick, Pick::Job(_)) && picked.len() >= self.limits.jobs;
        let cut = work.len() < cursors.len() || work.iter().any(|work| !work.decision.complete);
        Ok(Summary { more: !work.is_empty() && (full || cut), ..written.summary })
    }

    async fn lock(&self, tx: &Transaction<'_>, pick: &Pick) -> Result<Vec<JobId>, StoreError> {
        let limit = i64::try_from(self.limits.jobs).unwrap_or(i64::MAX);
        match pick {
            Pick::Due => job_cursor::lock_due(tx, self.limits.lookahead, limit).await,
            Pick::Overdue => match misfire::overdue_jobs(tx, limit).await? {
                jobs if jobs.is_empty() => Ok(jobs),
                jobs => job_cursor::lock(tx, &jobs).await,
            },
            Pick::Job(job) => job_cursor::lock(tx, &[*job]).await,
        }
    }

    /// Who was at work, if something may have been missed.
    async fn worked(
        &self,
        tx: &Transaction<'_>,
        cursors: &[Cursor],
        waiting: &BTreeMap<JobId, Vec<&Waiting>>,
        at: DateTime<Utc>,
    ) -> Result<Vec<term::Worked>, StoreError> {
        let due = waiting.values().flatten().map(|run| run.due_at);
        match cursors.iter().filter_map(|cursor| cursor.next_fire_at).chain(due).min() {
            Some(oldest) if oldest < at - YOUNG => {
                term::worked(tx, self.term, oldest - self.limits.lookahead).await
            }
            _ => Ok(Vec::new()),
        }
    }

    /// The work for each job, until the batch has as many occurrences as it may; the jobs that are left out stay due.
    fn decide<'a>(
        &self,
        cursors: &'a [Cursor],
        waiting: &BTreeMap<JobId, Vec<&'a Waiting>>,
        moment: &Moment<'_>,
    ) -> Vec<Work<'a>> {
        let mut left = self.limits.occurrences;
        let mut work = Vec::with_capacity(cursors.len());
        for cursor in cursors {
            if left == 0 {
                break;
            }
            let decision: Decision = decide(cursor, moment);
            left = left.saturating_sub(decision.occurrences);
            let waiting = waiting.get(&cursor.job_id).map_or(&[][..], Vec::as_slice);
            let settlement = sweep::settle(cursor, waiting, &decision, moment);
            work.push(Work { cursor, decision, settlement });
        }
        work
    }

    /// Says what was missed and what can't be planned: a job each only where a person must look at it.
    fn report(&self, work: &[Work<'_>], written: &write::Written) {
        let term = self.term.revision;
        let mut missed: BTreeMap<MisfireCause, (u64, u64)> = BTreeMap::new();
        for Work { cursor, decision, .. } in work {
            let (name, job) = (&cursor.name, cursor.job_id);
            for misfire in &decision.misfires {
                let (stretches, count) = missed.entry(misfire.cause).or_default();
                (*stretches, *count) = (*stretches + 1, *count + misfire.count);
                tracing::debug!(term, job.name = name, job.id = %job, ?misfire, "Occurrences were missed");
            }
            if let Some(problem) = &decision.broken {
                tracing::error!(term, job.name = name, job.id = %job, error = problem, "A job can't be planned: it is broken");
            }
            for (generation, problem) in &decision.unusable {
                tracing::error!(
                    term,
                    job.name = name,
                    job.id = %job,
                    job.generation = %generation,
                    error = problem,
                    "A past definition is not usable: nothing is planned by it"
                );
            }
        }
        for (cause, (stretches, count)) in missed {
            self.metrics.missed(cause, count);
            tracing::warn!(
                term,
                misfire.cause = %cause,
                misfire.stretches = stretches,
                misfire.count = count,
                "Occurrences were missed before they were planned, and don't run"
            );
        }
        for (cause, count) in &written.causes {
            self.metrics.missed(*cause, *count);
            tracing::warn!(
                term,
                misfire.cause = %cause,
                misfire.count = count,
                "Planned runs were not handed out in time, and don't run"
            );
        }
    }
}

fn by_job(waiting: &[Waiting]) -> BTreeMap<JobId, Vec<&Waiting>> {
    let mut jobs: BTreeMap<JobId, Vec<&Waiting>> = BTreeMap::new();
    for run in waiting {
        jobs.entry(run.key.job_id).or_default().push(run);
    }
    jobs
}
