//! Past occurrences that somebody asks for: rows of the ledger, queued at a pace or joined to the job's backlog.
//!
//! Invariant: an occurrence that has a run keeps it; what the planner has still to decide is left to it. Which instants
//! are occurrences is decided by the caller, while the job is [`lock`](crate::job_change::lock)ed.

use crate::catch_up::{self, Addition};
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

/// How the runs of a backfill follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// When the first one may start.
    pub from: DateTime<Utc>,
    /// Between the starts of two.
    pub interval: Duration,
}

/// Inserts those of the instants that have no run yet, oldest first, by the job's present definition, and returns them.
/// They wait in the job's backlog when its runs exclude each other, else in the queue. The ledger's floor is held, the
/// job is locked, and each day has its partition.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn insert(
    tx: &Transaction<'_>,
    job: &Stored,
    instants: &[DateTime<Utc>],
    pace: Pace,
    traceparent: Option<&str>,
) -> Result<Vec<DateTime<Utc>>, StoreError> {
    let (Some(oldest), Some(newest)) = (instants.first(), instants.last()) else { return Ok(Vec::new()) };
    let definition = &job.definition;
    let beside = !definition.overlap.is_exclusive();
    let interval_ms = i64::try_from(pace.interval.as_millis()).unwrap_or(i64::MAX);
    let from = if beside { after_queued(tx, job.id, pace).await? } else { pace.from };
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
                &interval_ms,
                &definition.priority,
                &definition.queue,
                oldest,
                newest,
            ],
        )
        .await?;
    let added: Vec<DateTime<Utc>> = rows.iter().map(|row| row.get("scheduled_for")).collect();
    if let (false, Some(first), Some(last)) = (beside, added.first(), added.last()) {
        let addition = Addition { job_id: job.id, first: *first, last: *last, count: added.len() };
        catch_up::extend(tx, &[addition]).await?;
    }
    Ok(added)
}

/// When the first run may start: after those that are queued already.
async fn after_queued(tx: &Transaction<'_>, job: JobId, pace: Pace) -> Result<DateTime<Utc>, StoreError> {
    let rows = tx.query(sql!("backfill/last_queued.sql"), &[&job.0]).await?;
    let last: Option<DateTime<Utc>> = rows.first().and_then(|row| row.get("due_at"));
    let interval = TimeDelta::from_std(pace.interval).unwrap_or(TimeDelta::MAX);
    let next = last.and_then(|last| last.checked_add_signed(interval));
    Ok(next.map_or(pace.from, |next| next.max(pace.from)))
}
