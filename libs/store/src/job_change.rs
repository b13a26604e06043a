//! Creating, changing, pausing and deleting jobs: definition, revision, both cursors, and the planned runs that a change
//! takes back, in the caller's transaction.
//!
//! Invariants: the cursors are locked before anything is read, so that nothing is planned meanwhile; the moment of the
//! change is taken after the queued rows are locked, so that no claim takes a run of a later instant, however long the
//! change goes on; a run leaves the ledger only when its queue row came back from a delete, for a claim that was faster
//! owns it; a cursor never jumps over an instant that was not planned.
//!
//! What it does not do: decide what differs and which instant comes first. The caller does, between [`lock`] and
//! [`change`].

mod pause;

use crate::job::{self, Stored};
pub use crate::job_revision::Action;
use crate::job_revision::{self, Revision};
use crate::run_end::{self, Attempt, End};
use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use futures_util::future::try_join5;
use model::ids::{Generation, JobId, RunKey, TenantId};
use model::job::Definition;
use model::run::{Reason, State};
use model::token::Token;
pub use pause::{Held, Released, pause, resume};
use std::collections::BTreeSet;
use tokio_postgres::Row;
use tokio_postgres::types::Json;

/// Jobs that nobody else changes, plans or judges until the transaction ends.
#[derive(Debug, Clone)]
pub struct Locked {
    /// The moment of the change: later instants belong to it, earlier ones and itself to what was in force.
    pub at: DateTime<Utc>,
    /// As they are now, by id. One that is missing is no job.
    pub jobs: Vec<Stored>,
}

/// Locks the jobs with their queued runs, waits for whoever plans, judges, changes or claims them, then looks at clock and
/// definitions.
///
/// # Errors
/// [`StoreError::Database`]; a lock that could not be had in time is worth a later try.
pub async fn lock(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Locked, StoreError> {
    let stored = lock_jobs(tx, jobs).await?;
    Ok(Locked { at: lock_queued(tx, jobs).await?, jobs: stored })
}

/// Locks the queued runs of jobs that are locked, for whoever locks something else in between; the moment of the change.
///
/// # Errors
/// As [`lock`].
pub async fn lock_queued(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<DateTime<Utc>, StoreError> {
    tx.query(sql!("job_change/lock_queue.sql"), &[&uuids(jobs)]).await?;
    now(tx).await
}

/// The same for whoever takes nothing back: what is queued is handed out meanwhile.
///
/// # Errors
/// As [`lock`].
pub async fn lock_unqueued(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Locked, StoreError> {
    let stored = lock_jobs(tx, jobs).await?;
    Ok(Locked { at: now(tx).await?, jobs: stored })
}

async fn lock_jobs(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Vec<Stored>, StoreError> {
    let jobs = uuids(jobs);
    let cursors = tx.prepare(sql!("job_change/lock_cursors.sql")).await?;
    let watch_cursors = tx.prepare(sql!("job_change/lock_watch_cursors.sql")).await?;
    let backlogs = tx.prepare(sql!("catch_up/lock.sql")).await?;
    let definitions = tx.prepare(sql!("job_change/lock_jobs.sql")).await?;
    let read = tx.prepare(sql!("job_change/read.sql")).await?;
    // Pipelined, each with its own snapshot: the last one sees what the lock holders before us committed.
    let (_, _, _, _, rows) = try_join5(
        tx.query_prepared(&cursors, &[&jobs]),
        tx.query_prepared(&watch_cursors, &[&jobs]),
        tx.query_prepared(&backlogs, &[&jobs]),
        tx.query_prepared(&definitions, &[&jobs]),
        tx.query_prepared(&read, &[&jobs]),
    )
    .await?;
    rows.iter().map(job::read).collect()
}

/// The cell's clock, after the locks of the transaction's earlier statements.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn now(tx: &Transaction<'_>) -> Result<DateTime<Utc>, StoreError> {
    let rows = tx.query(sql!("clock/now.sql"), &[]).await?;
    let missing = || StoreError::Corrupt { what: "esc_now()", problem: "returned no row".to_owned() };
    rows.first().map(|row| row.get("now")).ok_or_else(missing)
}

/// A job to be stored.
#[derive(Debug, Clone, Copy)]
pub struct New<'a> {
    /// Its identity, never used before.
    pub id: JobId,
    /// Its name.
    pub name: &'a str,
    /// What its owner wrote.
    pub definition: &'a Definition,
    /// The first instant after the creation.
    pub first: Option<DateTime<Utc>>,
    /// When the watchdog looks at that instant; none when the job is not watched.
    pub judge_at: Option<DateTime<Utc>>,
}

/// The constraint that refuses a second job of a name.
pub const NAME_TAKEN: &str = "job_by_name";

/// Stores new jobs of `tenant`, created at `at` by `author`.
///
/// # Errors
/// [`StoreError::Database`]; it violates [`NAME_TAKEN`] when the tenant has a job of one of the names.
pub async fn create(
    tx: &Transaction<'_>,
    tenant: TenantId,
    at: DateTime<Utc>,
    author: &str,
    jobs: &[New<'_>],
) -> Result<(), StoreError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let id: Vec<_> = jobs.iter().map(|job| job.id.0).collect();
    let name: Vec<_> = jobs.iter().map(|job| job.name).collect();
    let definition: Vec<_> = jobs.iter().map(|job| Json(job.definition)).collect();
    let first: Vec<_> = jobs.iter().map(|job| job.first).collect();
    let judge_at: Vec<_> = jobs.iter().map(|job| job.judge_at).collect();
    tx.execute(sql!("job_change/insert_jobs.sql"), &[&tenant.0, &at, &id, &name, &definition]).await?;
    let revisions: Vec<_> = jobs
        .iter()
        .map(|job| Revision {
            job: job.id,
            generation: Generation::FIRST,
            definition: job.definition,
            paused: false,
        })
        .collect();
    job_revision::insert(tx, at, author, Action::Created, None, &revisions).await?;
    tx.execute(sql!("job_change/insert_cursors.sql"), &[&id, &first, &judge_at]).await.map(drop)
}

/// A definition to be put in force.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// Whose.
    pub job: JobId,
    /// Its number.
    pub generation: Generation,
    /// The job's name from now on.
    pub name: &'a str,
    /// What its owner wrote.
    pub definition: &'a Definition,
    /// The first instant of its schedule after the change.
    pub first: Option<DateTime<Utc>>,
    /// Whether what is planned is planned anew.
    pub replans: bool,
    /// The job is paused, and stays so.
    pub paused: bool,
}

/// Puts definitions in force for instants after `at`, because their owner changed them ([`Action::Changed`]) or a
/// calendar did ([`Action::Calendar`]), and returns the planned runs that were taken back. The jobs are [`lock`]ed.
///
/// # Errors
/// As [`create`].
pub async fn change(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    action: Action,
    changes: &[Change<'_>],
) -> Result<Vec<RunKey>, StoreError> {
    if changes.is_empty() {
        return Ok(Vec::new());
    }
    let job: Vec<_> = changes.iter().map(|change| change.job.0).collect();
    let generation: Vec<_> = changes.iter().map(|change| change.generation.0).collect();
    let name: Vec<_> = changes.iter().map(|change| change.name).collect();
    let definition: Vec<_> = changes.iter().map(|change| Json(change.definition)).collect();
    let first: Vec<_> = changes.iter().map(|change| change.first).collect();
    let replans: Vec<_> = changes.iter().map(|change| change.replans).collect();
    tx.execute(sql!("job_change/move_cursors.sql"), &[&job, &generation, &replans, &first]).await?;
    tx.execute(sql!("job_change/move_watch_cursors.sql"), &[&at, &job, &first]).await?;
    tx.execute(sql!("job_change/update_jobs.sql"), &[&at, &job, &generation, &name, &definition]).await?;
    let revisions: Vec<_> = changes
        .iter()
        .map(|change| Revision {
            job: change.job,
            generation: change.generation,
            definition: change.definition,
            paused: change.paused,
        })
        .collect();
    job_revision::insert(tx, at, author, action, None, &revisions).await?;
    let replanned: Vec<_> = changes.iter().filter(|change| change.replans).map(|change| change.job).collect();
    take_back(tx, at, &replanned).await
}

/// What a deletion did to the job's runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deleted {
    /// Planned after it, and removed.
    pub removed: Vec<RunKey>,
    /// Waiting, between two attempts or in a backlog, and ended as cancelled.
    pub cancelled: BTreeSet<RunKey>,
}

/// Deletes a job that is [`lock`]ed: nothing is due after `at`; what was planned after it is removed, what waits or is
/// held ends as cancelled, what runs goes on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn delete(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    author: &str,
    job: &Stored,
) -> Result<Deleted, StoreError> {
    let (id, generation) = (job.id.0, job.generation.next());
    tx.execute(sql!("job_change/retire_cursors.sql"), &[&at, &id, &generation.0]).await?;
    let backlog = tx.query(sql!("job_change/remove_backlog.sql"), &[&id]).await?;
    tx.execute(sql!("job_change/mark_deleted.sql"), &[&at, &id, &generation.0]).await?;
    let revision = Revision { job: job.id, generation, definition: &job.definition, paused: false };
    job_revision::insert(tx, at, author, Action::Deleted, None, &[revision]).await?;
    let removed = take_back(tx, at, &[job.id]).await?;
    unpark(tx, job.id).await?;
    // A retry that a claim takes from here on is not ended: the end names attempt and token.
    let waiting = tx.query(sql!("job_change/waiting.sql"), &[&id]).await?;
    let mut ends: Vec<_> = backlog
        .iter()
        .map(|row| cancelled(job.id, row.get("scheduled_for"), None, Reason::Deleted))
        .collect();
    for row in &waiting {
        ends.push(cancelled(job.id, row.get("scheduled_for"), attempt(row)?, Reason::Deleted));
    }
    let cancelled = run_end::end(tx, &ends).await?;
    Ok(Deleted { removed, cancelled })
}

fn cancelled(job: JobId, scheduled_for: DateTime<Utc>, attempt: Option<Attempt>, reason: Reason) -> End {
    End {
        key: RunKey::new(job, scheduled_for),
        attempt,
        state: State::Cancelled,
        reason: Some(reason),
        output: None,
    }
}

fn attempt(row: &Row) -> Result<Option<Attempt>, StoreError> {
    let number: i32 = row.get("attempt");
    if number == 0 {
        return Ok(None);
    }
    let token = Token::from_i64(row.get("token"))
        .map_err(|error| StoreError::Corrupt { what: "run_lease.token", problem: error.to_string() })?;
    Ok(Some(Attempt { number, token, session: None }))
}

/// Takes both cursors of a job along with a revision that changes nothing but whether the job is paused.
async fn turned_back(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    job: JobId,
    generation: Generation,
    planned_from: Option<DateTime<Utc>>,
    watched_from: Option<DateTime<Utc>>,
) -> Result<(), StoreError> {
    tx.execute(sql!("job_change/turn_back_cursor.sql"), &[&job.0, &generation.0, &planned_from]).await?;
    tx.execute(sql!("job_change/move_watch_cursors.sql"), &[&at, &vec![job.0], &vec![watched_from]])
        .await
        .map(drop)
}

/// Puts the run that waits for an earlier one of its job back into the queue, whose rows are locked, and holds it.
async fn unpark(tx: &Transaction<'_>, job: JobId) -> Result<(), StoreError> {
    tx.query(sql!("job_change/lock_parked.sql"), &[&job.0]).await?;
    tx.execute(sql!("job_change/unpark.sql"), &[&job.0]).await.map(drop)
}

/// Takes back what the schedule planned after `at` and nobody has taken.
pub(crate) async fn take_back(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    jobs: &[JobId],
) -> Result<Vec<RunKey>, StoreError> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let jobs = uuids(jobs);
    tx.query(sql!("job_change/lock_queue.sql"), &[&jobs]).await?;
    let rows = tx.query(sql!("job_change/unqueue_planned.sql"), &[&jobs, &at]).await?;
    let removed: Vec<_> =
        rows.iter().map(|row| RunKey::new(JobId(row.get("job_id")), row.get("scheduled_for"))).collect();
    let instants = || removed.iter().map(|key| key.scheduled_for);
    let (Some(first), Some(last)) = (instants().min(), instants().max()) else { return Ok(removed) };
    let job: Vec<_> = removed.iter().map(|key| key.job_id.0).collect();
    let scheduled_for: Vec<_> = instants().collect();
    tx.execute(sql!("job_change/remove_planned.sql"), &[&job, &scheduled_for, &first, &last]).await?;
    Ok(removed)
}

fn uuids(jobs: &[JobId]) -> Vec<uuid::Uuid> {
    jobs.iter().map(|job| job.0).collect()
}
