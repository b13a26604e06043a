//! Which timezone database the plans are made with: when a newer one comes, they are made anew, job by job.
//!
//! Invariant: a row for the whole cell, written under the ticker's fence; `reached` moves in the transaction that plans
//! the jobs up to it anew, so that a crash goes on where it stopped. What is planned anew is decided by the ticker.

use crate::{StoreError, Transaction, job_change, job_cursor, sql};
use chrono::{DateTime, Utc};
use model::ids::{JobId, RunKey};

/// What the plans are made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The version: a year and a letter.
    pub version: String,
    /// Jobs through this one are planned with it; none: all are.
    pub reached: Option<JobId>,
}

/// What the plans are made with; none when nothing was planned yet.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(tx: &Transaction<'_>) -> Result<Option<Stored>, StoreError> {
    let rows = tx.query(sql!("tzdata/read.sql"), &[]).await?;
    let stored = |row: &tokio_postgres::Row| Stored {
        version: row.get("version"),
        reached: row.get::<_, Option<uuid::Uuid>>("reached").map(JobId),
    };
    Ok(rows.first().map(stored))
}

/// Notes that plans are made with `version` from now on, and through which job they are already.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn begin(tx: &Transaction<'_>, version: &str, reached: Option<JobId>) -> Result<(), StoreError> {
    tx.execute(sql!("tzdata/begin.sql"), &[&version, &reached.map(|job| job.0)]).await.map(drop)
}

/// Notes through which job the plans are made anew; none: all are.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn reach(tx: &Transaction<'_>, reached: Option<JobId>) -> Result<(), StoreError> {
    tx.execute(sql!("tzdata/reach.sql"), &[&reached.map(|job| job.0)]).await.map(drop)
}

/// The next jobs after one, in order, and whether their plans depend on a timezone. Nothing is locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn jobs(tx: &Transaction<'_>, after: JobId, limit: i64) -> Result<Vec<(JobId, bool)>, StoreError> {
    let rows = tx.query(sql!("tzdata/jobs.sql"), &[&after.0, &limit]).await?;
    Ok(rows.iter().map(|row| (JobId(row.get("id")), row.get("zoned"))).collect())
}

/// How many occurrences of these jobs have a run, each from its instant through `through`. A missing one has none.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn ran(
    tx: &Transaction<'_>,
    jobs: &[(JobId, DateTime<Utc>)],
    through: DateTime<Utc>,
) -> Result<Vec<(JobId, usize)>, StoreError> {
    let Some(earliest) = jobs.iter().map(|(_, from)| *from).min() else { return Ok(Vec::new()) };
    let (ids, from): (Vec<_>, Vec<_>) = jobs.iter().map(|(job, from)| (job.0, *from)).unzip();
    let rows = tx.query(sql!("tzdata/ran.sql"), &[&ids, &from, &through, &earliest]).await?;
    let ran = |row: &tokio_postgres::Row| {
        (JobId(row.get("job_id")), usize::try_from(row.get::<_, i64>("runs")).unwrap_or_default())
    };
    Ok(rows.iter().map(ran).collect())
}

/// Takes back what the schedules of jobs, which are locked as for a change, planned after `at` and nobody has taken.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn take_back(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    jobs: &[JobId],
) -> Result<Vec<RunKey>, StoreError> {
    job_change::take_back(tx, at, jobs).await
}

/// Moves the cursors of planner and watchdog of jobs, which are locked as for a change, to where they go on.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn go_on(
    tx: &Transaction<'_>,
    at: DateTime<Utc>,
    moved: &[(JobId, Option<DateTime<Utc>>)],
) -> Result<(), StoreError> {
    job_cursor::advance(tx, moved).await?;
    let (jobs, first): (Vec<_>, Vec<_>) = moved.iter().map(|(job, first)| (job.0, *first)).unzip();
    tx.execute(sql!("job_change/move_watch_cursors.sql"), &[&at, &jobs, &first]).await.map(drop)
}
