//! Past occurrences that somebody asks for: rows of the ledger, queued at a pace or joined to the job's backlog.
//!
//! Invariant: an occurrence that has a run keeps it; what the planner has still to decide is left to it. Which instants
//! are occurrences is decided by the caller, while the job is [`lock`](crate::job_change::lock)ed.

use crate::catch_up::{self, Addition, Pace};
use crate::job::Stored;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::JobId;
use std::time::Duration;

/// Where the planner goes on; it decides about this instant and all later ones. None: it has nothing left to decide.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn planner_at(tx: &Transaction<'_>, job: JobId) -> Result<Option<DateTime<Utc>>, StoreError> {
    let rows = tx.query(sql!("backfill/cursor.sql"), &[&job.0]).await?;
    Ok(rows.first().and_then(|row| row.get("next_fire_at")))
}

/// Those of the instants, which are in order, that have a run.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn existing(
    tx: &Transaction<'_>,
    job: JobId,
    instants: &[DateTime<Utc>],
) -> Result<Vec<DateTime<Utc>>, StoreError> {
    let (Some(first), Some(last)) = (instants.first(), instants.last()) else { return Ok(Vec::new()) };
    let rows = tx.query(sql!("backfill/existing.sql"), &[&job.0, &instants, first, last]).await?;
    Ok(rows.iter().map(|row| row.get("scheduled_for")).collect())
}

/// Inserts those of the instants that have no run yet, oldest first, by the job's present definition, and returns them.
/// They start `interval` after each other at least, from `at` on: one after the other in the job's backlog when its runs
/// exclude each other, else at that pace beside each other. The ledger's floor is held, the job is locked, and each
/// day has its partition.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    tx: &Transaction<'_>,
    job: &Stored,
    instants: &[DateTime<Utc>],
    at: DateTime<Utc>,
    interval: Duration,
    traceparent: Option<&str>,
) -> Result<Vec<DateTime<Utc>>, StoreError> {
    let (Some(oldest), Some(newest)) = (instants.first(), instants.last()) else { return Ok(Vec::new()) };
    let definition = &job.definition;
    let beside = !definition.overlap.is_exclusive();
    let (mut from, mut step) = (at, interval);
    let paces = if beside { catch_up::lock_paces(tx, &[job.tenant]).await? } else { Vec::new() };
    if beside {
        let last = last_queued(tx, job.id).await?;
        let ready = paces.iter().map(|pace| pace.next_at).chain(last.map(|last| later(last, interval)));
        from = ready.fold(at, DateTime::max);
        step = paces.iter().map(slot).fold(interval, Duration::max);
    }
    let step_ms = i64::try_from(step.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    let trace = traceparent.map(str::as_bytes);
    let rows = tx
        .query(
            sql!("backfill/insert.sql"),
            &[
                &job.id.0,
                &job.tenant.0,
                &instants,
                &from,
                &job.generation.0,
                &trace,
                &beside,
                &step_ms,
                &definition.priority,
                &definition.queue,
                oldest,
                newest,
            ],
        )
        .await?;
    let added: Vec<DateTime<Utc>> = rows.iter().map(|row| row.get("scheduled_for")).collect();
    if let (false, Some(first), Some(last)) = (beside, added.first(), added.last()) {
        let addition = Addition { job_id: job.id, first: *first, last: *last, count: added.len(), interval };
        catch_up::extend(tx, &[addition]).await?;
    }
    let count = u32::try_from(added.len()).unwrap_or(u32::MAX);
    let taken = paces.iter().map(|pace| (pace.tenant_id, later(pace.next_at.max(at), slot(pace) * count)));
    catch_up::set_paces(tx, &taken.collect::<Vec<_>>()).await?;
    Ok(added)
}

/// Between the runs of all of a tenant's backlogs.
fn slot(pace: &Pace) -> Duration {
    Duration::from_secs(1) / pace.per_second.max(1)
}

fn later(at: DateTime<Utc>, by: Duration) -> DateTime<Utc> {
    let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
    at.checked_add_signed(by).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// When the last run of the job's backlog that is queued already is due.
async fn last_queued(tx: &Transaction<'_>, job: JobId) -> Result<Option<DateTime<Utc>>, StoreError> {
    let rows = tx.query(sql!("backfill/last_queued.sql"), &[&job.0]).await?;
    Ok(rows.first().and_then(|row| row.get("due_at")))
}
