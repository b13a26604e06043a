//! Backlogs that are being worked off, one run at a time, and the pace of all of a tenant's.

use crate::{Store, StoreError, Transaction, run_end, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey, TenantId};
use std::time::Duration;

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
    /// Between two of them, in whole milliseconds. Of two paces the slower one counts until the backlog is done.
    pub interval: Duration,
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
    let interval: Vec<_> = additions.iter().map(|addition| interval_ms(addition.interval)).collect();
    tx.execute(sql!("catch_up/extend.sql"), &[&ids, &first, &last, &count, &interval]).await?;
    run_end::release_next(tx, &jobs).await.map(drop)
}

/// Whole milliseconds, never fewer than `interval` has, within what the table takes.
fn interval_ms(interval: Duration) -> i32 {
    let whole = interval.as_nanos().div_ceil(1_000_000);
    i32::try_from(whole).unwrap_or(i32::MAX).clamp(1, 3_600_000)
}

/// Where the pace of a tenant's backlogs is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Whose.
    pub tenant_id: TenantId,
    /// The most runs of backlogs, over all of its jobs, that become due in a second.
    pub per_second: u32,
    /// When the next one may.
    pub next_at: DateTime<Utc>,
}

/// Locks the paces of these tenants, in order: the last lock of a transaction that others may wait for.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_paces(tx: &Transaction<'_>, tenants: &[TenantId]) -> Result<Vec<Pace>, StoreError> {
    if tenants.is_empty() {
        return Ok(Vec::new());
    }
    let tenants: Vec<_> = tenants.iter().map(|tenant| tenant.0).collect();
    let rows = tx.query(sql!("catch_up/lock_paces.sql"), &[&tenants]).await?;
    let paces = rows.iter().map(|row| Pace {
        tenant_id: TenantId(row.get("tenant_id")),
        per_second: u32::try_from(row.get::<_, i32>("per_second")).unwrap_or(1),
        next_at: row.get("next_at"),
    });
    Ok(paces.collect())
}

/// Moves locked paces to their next free slots.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn set_paces(tx: &Transaction<'_>, paces: &[(TenantId, DateTime<Utc>)]) -> Result<(), StoreError> {
    if paces.is_empty() {
        return Ok(());
    }
    let (tenants, next): (Vec<_>, Vec<_>) = paces.iter().map(|(tenant, next)| (tenant.0, *next)).unzip();
    tx.execute(sql!("catch_up/set_paces.sql"), &[&tenants, &next]).await.map(drop)
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
    let (from, through) = crate::run::any_time();
    let rows = tx.query(sql!("catch_up/overflow.sql"), &[&jobs, &limits, &since, &from, &through]).await?;
    Ok(rows.iter().map(|row| RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))).collect())
}
