//! Pausing and resuming: what is planned is taken back, what waits is held, and released again.
//!
//! Invariants: a row that is held is due never (`infinity`), so that no claim sees it; the planner's cursor only goes
//! back, so that whoever resumes may still ask for everything that was due meanwhile. Whatever runs goes on. A retry
//! that is queued in the very instant of the pause may escape it and run: the pause does not wait for running work.

use super::{Action, cancelled, take_back, turned_back};
use crate::job::Stored;
use crate::job_revision::{self, Revision};
use crate::run_end;
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, TimeDelta, Utc};
use model::ids::RunKey;
use model::run::Reason;
use std::collections::BTreeSet;

/// What a pause did to the job's runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Planned after it, and removed.
    pub removed: Vec<RunKey>,
    /// Waiting, and held until the job is resumed.
    pub held: usize,
}

/// What a resumption did to the runs that were held.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Released {
    /// Never handed out, and ended as cancelled.
    pub cancelled: BTreeSet<RunKey>,
    /// Due again.
    pub released: usize,
}

/// Pauses a job that is [`lock`](super::lock)ed: nothing after `at` is planned, nothing is handed out. `first` is the
/// first instant of its schedule after `at`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn pause(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    job: &Stored,
    first: Option<DateTime<Utc>>,
    reason: &str,
) -> Result<Held, StoreError> {
    let (id, generation) = (job.id.0, job.generation.next());
    turned_back(tx, at, job.id, generation, first, first).await?;
    tx.execute(sql!("job_change/mark_paused.sql"), &[&at, &id, &generation.0, &reason]).await?;
    let revision = Revision { job: job.id, generation, definition: &job.definition, paused: true };
    let noted = (!reason.is_empty()).then_some(reason);
    job_revision::insert(tx, at, author, Action::Paused, noted, &[revision]).await?;
    let removed = take_back(tx, at, &[job.id]).await?;
    super::unpark(tx, job.id).await?;
    let held = tx.query(sql!("job_change/hold.sql"), &[&id]).await?.len();
    Ok(Held { removed, held })
}

/// Resumes a job that is [`lock`](super::lock)ed and paused. Scheduled runs that were held end as cancelled, or with
/// `catches_up` are due, as what was never planned in the pause is planned then: both follow the misfire policy.
/// `first` is the first instant of its schedule after `at`.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resume(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    job: &Stored,
    first: Option<DateTime<Utc>>,
    catches_up: bool,
) -> Result<Released, StoreError> {
    let (id, generation) = (job.id.0, job.generation.next());
    let since = job.paused.as_ref().map_or(at, |paused| paused.since);
    // The planner may have walked over the pause: it begins again where the pause began.
    let planned_from = if catches_up { Some(since + TimeDelta::microseconds(1)) } else { first };
    turned_back(tx, at, job.id, generation, planned_from, first).await?;
    tx.execute(sql!("job_change/mark_resumed.sql"), &[&at, &id, &generation.0]).await?;
    let revision = Revision { job: job.id, generation, definition: &job.definition, paused: false };
    job_revision::insert(tx, at, author, Action::Resumed { catches_up }, None, &[revision]).await?;
    tx.query(sql!("job_change/lock_queue.sql"), &[&vec![id]]).await?;
    let mut ends = Vec::new();
    if !catches_up {
        let unstarted = tx.query(sql!("job_change/held_unstarted.sql"), &[&id]).await?;
        ends.extend(
            unstarted.iter().map(|row| cancelled(job.id, row.get("scheduled_for"), None, Reason::Paused)),
        );
    }
    let cancelled = run_end::end(tx, &ends).await?;
    let (from, through) = crate::run::any_time();
    let interval_ms = 1_000 / i64::from(job.definition.misfire.catch_up_per_second.max(1));
    let released = tx
        .query(sql!("job_change/release_held.sql"), &[&id, &at, &since, &from, &through, &interval_ms])
        .await?
        .len();
    // A backlog that stood still for the pause.
    run_end::release_next(tx, &[job.id]).await?;
    Ok(Released { cancelled, released })
}
