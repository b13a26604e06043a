//! Occurrences that were missed: those without a row are recorded here, those with one are found and turned into what
//! the job's policy says.
//!
//! Invariant: every function works under the fence and the locks of the jobs' cursors and backlogs, in this order; a
//! queued run is locked in one statement and looked at in the next, for a claim may be taking it. What becomes of a
//! missed occurrence is decided by the ticker.

use crate::fence::Term;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use futures_util::future::try_join;
use model::ids::{Generation, JobId, RunKey, TenantId};
use model::policy::MisfirePolicy;
use model::run::{MisfireCause, MisfireOutcome};

/// Consecutive missed occurrences without a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfire {
    /// Whose.
    pub job_id: JobId,
    /// The oldest.
    pub first: DateTime<Utc>,
    /// The newest.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: u64,
    /// Why they were missed.
    pub cause: MisfireCause,
    /// The rule of their job then.
    pub policy: MisfirePolicy,
    /// What became of them.
    pub outcome: MisfireOutcome,
}

/// A queued run that was not handed out in time, or that runs late.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Which.
    pub key: RunKey,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// The definition that it was planned by.
    pub generation: Generation,
    /// Since when it was to be handed out; its occurrence, while a pause holds it.
    pub due_at: DateTime<Utc>,
    /// By when it was to be handed out; none for the one that runs late.
    pub start_by: Option<DateTime<Utc>>,
    /// It runs late.
    pub late: bool,
    /// No other run of its job may be open beside it.
    pub exclusive: bool,
    /// Whose workers it waits for.
    pub queue: String,
}

/// Records occurrences that were missed and get no run.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(tx: &Transaction<'_>, term: Term, misfires: &[Misfire]) -> Result<(), StoreError> {
    if misfires.is_empty() {
        return Ok(());
    }
    let job_id: Vec<_> = misfires.iter().map(|misfire| misfire.job_id.0).collect();
    let first: Vec<_> = misfires.iter().map(|misfire| misfire.first).collect();
    let last: Vec<_> = misfires.iter().map(|misfire| misfire.last).collect();
    let count: Vec<_> =
        misfires.iter().map(|misfire| i64::try_from(misfire.count).unwrap_or(i64::MAX)).collect();
    let cause: Vec<_> = misfires.iter().map(|misfire| misfire.cause.as_str()).collect();
    let policy: Vec<_> = misfires.iter().map(|misfire| misfire.policy.as_str()).collect();
    let outcome: Vec<_> = misfires.iter().map(|misfire| misfire.outcome.as_str()).collect();
    tx.execute(
        sql!("misfire/insert.sql"),
        &[&job_id, &first, &last, &count, &cause, &policy, &outcome, &term.revision],
    )
    .await
    .map(drop)
}

/// Up to `limit` jobs with runs that were not handed out in time. A hint: nothing is locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn overdue_jobs(tx: &Transaction<'_>, limit: i64) -> Result<Vec<JobId>, StoreError> {
    let rows = tx.query(sql!("misfire/overdue_jobs.sql"), &[&limit]).await?;
    Ok(rows.iter().map(|row| JobId(row.get("job_id"))).collect())
}

/// The queued runs of these jobs that were not handed out by `at`, and those that run late, in order. They are locked.
/// What a pause holds is missing, but for the late ones: a job has one of them at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn waiting(
    tx: &Transaction<'_>,
    jobs: &[JobId],
    at: DateTime<Utc>,
) -> Result<Vec<Waiting>, StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    let lock = tx.prepare(sql!("misfire/lock_waiting.sql")).await?;
    let read = tx.prepare(sql!("misfire/waiting.sql")).await?;
    // Pipelined; the second looks after the claims that the first waited for.
    let (_, rows) =
        try_join(tx.query_prepared(&lock, &[&jobs, &at]), tx.query_prepared(&read, &[&jobs, &at])).await?;
    let waiting = rows.iter().map(|row| Waiting {
        key: RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for")),
        tenant_id: TenantId(row.get("tenant_id")),
        generation: Generation(row.get("generation")),
        due_at: row.get("due_at"),
        start_by: row.get("start_by"),
        late: row.get("late"),
        exclusive: row.get("exclusive"),
        queue: row.get("queue"),
    });
    Ok(waiting.collect())
}

/// Lets queued runs, at most one a job, run late from `at` on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn make_late(tx: &Transaction<'_>, runs: &[RunKey], at: DateTime<Utc>) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let (jobs, instants) = columns(runs);
    tx.execute(sql!("misfire/make_late.sql"), &[&jobs, &instants, &at]).await.map(drop)
}

/// Lets queued runs run as a backlog, each from its time on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn make_paced(tx: &Transaction<'_>, runs: &[(RunKey, DateTime<Utc>)]) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let (keys, due): (Vec<_>, Vec<_>) = runs.iter().copied().unzip();
    let (jobs, instants) = columns(&keys);
    tx.execute(sql!("misfire/make_paced.sql"), &[&jobs, &instants, &due]).await.map(drop)
}

/// Takes queued runs out of the queue; they stay in the ledger, for a backlog to queue them again.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn unqueue(tx: &Transaction<'_>, runs: &[RunKey]) -> Result<(), StoreError> {
    if runs.is_empty() {
        return Ok(());
    }
    let (jobs, instants) = columns(runs);
    tx.execute(sql!("misfire/unqueue.sql"), &[&jobs, &instants]).await.map(drop)
}

fn columns(runs: &[RunKey]) -> (Vec<uuid::Uuid>, Vec<DateTime<Utc>>) {
    runs.iter().map(|run| (run.job_id.0, run.scheduled_for)).unzip()
}

/// Who could have taken a run while it was to be handed out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hands {
    /// A dispatcher was renewed in that time, so that it could have.
    pub renewed: bool,
    /// A dispatcher lived through all of that time and could not renew itself.
    pub silent: bool,
    /// A worker of the queue was connected.
    pub worker: bool,
    /// A limit of its tenant or queue held runs back in that time.
    pub held: bool,
}

/// Who could have taken these runs while they were to be handed out, in the same order.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn hands(tx: &Transaction<'_>, runs: &[&Waiting]) -> Result<Vec<Hands>, StoreError> {
    if runs.is_empty() {
        return Ok(Vec::new());
    }
    let tenants: Vec<_> = runs.iter().map(|run| run.tenant_id.0).collect();
    let queues: Vec<_> = runs.iter().map(|run| run.queue.as_str()).collect();
    let due: Vec<_> = runs.iter().map(|run| run.due_at).collect();
    let start_by: Vec<_> = runs.iter().map(|run| run.start_by.unwrap_or(run.due_at)).collect();
    let rows = tx.query(sql!("misfire/evidence.sql"), &[&tenants, &queues, &due, &start_by]).await?;
    let hands = rows.iter().map(|row| Hands {
        renewed: row.get("renewed"),
        silent: row.get("silent"),
        worker: row.get("worker"),
        held: row.get("held"),
    });
    Ok(hands.collect())
}

/// Notes why runs that have just ended, in this transaction, were not handed out in time.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn explain(tx: &Transaction<'_>, ended: &[(RunKey, MisfireCause)]) -> Result<(), StoreError> {
    let instants = || ended.iter().map(|(run, _)| run.scheduled_for);
    let (Some(first), Some(last)) = (instants().min(), instants().max()) else { return Ok(()) };
    let (keys, causes): (Vec<_>, Vec<_>) = ended.iter().map(|(run, cause)| (*run, cause.as_str())).unzip();
    let (jobs, instants) = columns(&keys);
    tx.execute(sql!("misfire/explain.sql"), &[&jobs, &instants, &causes, &first, &last]).await.map(drop)
}
