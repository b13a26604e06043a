//! Backlogs that are being worked off, one run at a time.

use crate::{Store, StoreError, Transaction, run_end, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey};

/// Queues the next run of each backlog that has none out: a safety net, because each end queues the next. Returns what
/// was queued.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn release_idle(store: &Store) -> Result<Vec<RunKey>, StoreError> {
    let mut client = store.client("look for idle backlogs").await?;
    let rows = client.query("look for idle backlogs", sql!("catch_up/idle.sql"), &[]).await?;
    let jobs: Vec<JobId> = rows.iter().map(|row| JobId(row.get("job_id"))).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let tx = client.begin("release idle backlogs").await?;
    let queued = run_end::release_next(&tx, &jobs).await?;
    tx.commit().await?;
    Ok(queued)
}

/// Planned runs that join a backlog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition {
    /// Whose backlog.
    pub job_id: JobId,
    /// The oldest run.
    pub first: DateTime<Utc>,
    /// The newest run.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: usize,
}

/// Locks the backlogs of these jobs, in order, before their queued runs are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<(), StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    tx.query(sql!("catch_up/lock.sql"), &[&jobs]).await.map(drop)
}

/// Adds runs that are in the ledger and not in the queue to the backlogs of their jobs, and queues the first of each
/// backlog that has none out. The jobs' cursors and backlogs are locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn extend(tx: &Transaction<'_>, additions: &[Addition]) -> Result<(), StoreError> {
    if additions.is_empty() {
        return Ok(());
    }
    let jobs: Vec<_> = additions.iter().map(|addition| addition.job_id).collect();
    let ids: Vec<_> = jobs.iter().map(|job| job.0).collect();
    let first: Vec<_> = additions.iter().map(|addition| addition.first).collect();
    let last: Vec<_> = additions.iter().map(|addition| addition.last).collect();
    let count: Vec<_> =
        additions.iter().map(|addition| i32::try_from(addition.count).unwrap_or(i32::MAX)).collect();
    tx.execute(sql!("catch_up/extend.sql"), &[&ids, &first, &last, &count]).await?;
    run_end::release_next(tx, &jobs).await.map(drop)
}

/// How much of a backlog may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Whose.
    pub job_id: JobId,
    /// The newest so many.
    pub limit: u32,
    /// None before this.
    pub since: DateTime<Utc>,
}

/// The runs that wait in these jobs' backlogs beyond their bounds, for the caller to end. The backlogs are locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn overflow(tx: &Transaction<'_>, bounds: &[Bounds]) -> Result<Vec<RunKey>, StoreError> {
    if bounds.is_empty() {
        return Ok(Vec::new());
    }
    let jobs: Vec<_> = bounds.iter().map(|bounds| bounds.job_id.0).collect();
    let limits: Vec<_> = bounds.iter().map(|bounds| i64::from(bounds.limit)).collect();
    let since: Vec<_> = bounds.iter().map(|bounds| bounds.since).collect();
    let (from, through) = (DateTime::<Utc>::UNIX_EPOCH, DateTime::from_timestamp(4_102_444_800, 0));
    let rows = tx.query(sql!("catch_up/overflow.sql"), &[&jobs, &limits, &since, &from, &through]).await?;
    Ok(rows.iter().map(|row| RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))).collect())
}
