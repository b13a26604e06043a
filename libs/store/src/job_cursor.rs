//! The planner's cursors: the first instant of each job that is not planned yet.
//!
//! Invariant: a cursor is locked before the job's definition is read, in a statement of its own, so that a plan is
//! made by the definition that is in force. The registry locks cursors too, with each change of a definition
//! (`job_change`). What is planned from a cursor on is decided by the ticker, not here.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, JobId, TenantId};
use model::job::Definition;
use std::time::Duration;
use tokio_postgres::Row;

/// From where a job is planned, and by which definitions.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// Whose.
    pub job_id: JobId,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// The job's name now.
    pub name: String,
    /// When the job was created.
    pub created_at: DateTime<Utc>,
    /// No occurrence from here on is planned; none when the schedule has no more.
    pub next_fire_at: Option<DateTime<Utc>>,
    /// Its present definition can't be used.
    pub broken: bool,
    /// The definitions from the one in force at `next_fire_at` on, or from an older one that was asked for, in order.
    pub revisions: Vec<Revision>,
}

/// A definition and since when it is in force.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Its number.
    pub generation: Generation,
    /// It applies to instants after this.
    pub in_force_from: DateTime<Utc>,
    /// The job was deleted by it.
    pub deleted: bool,
    /// The job is paused while it is in force.
    pub paused: bool,
    /// It ends a pause, and what was due in the pause is missed.
    pub catches_up: bool,
    /// The definition, or why this version can't read it.
    pub definition: Result<Definition, String>,
}

/// Locks up to `limit` cursors that are due within `lookahead`, the longest overdue first; those that somebody else has
/// locked are left out.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock_due(
    tx: &Transaction<'_>,
    lookahead: Duration,
    limit: i64,
) -> Result<Vec<JobId>, StoreError> {
    let lookahead = i64::try_from(lookahead.as_millis()).unwrap_or(i64::MAX);
    let rows = tx.query(sql!("job_cursor/lock_due.sql"), &[&lookahead, &limit]).await?;
    Ok(job_ids(&rows))
}

/// Locks the cursors of these jobs; those that somebody else has locked are left out.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn lock(tx: &Transaction<'_>, jobs: &[JobId]) -> Result<Vec<JobId>, StoreError> {
    let jobs: Vec<_> = jobs.iter().map(|job| job.0).collect();
    let rows = tx.query(sql!("job_cursor/lock.sql"), &[&jobs]).await?;
    Ok(job_ids(&rows))
}

fn job_ids(rows: &[Row]) -> Vec<JobId> {
    rows.iter().map(|row| JobId(row.get("job_id"))).collect()
}

/// Reads locked cursors; each job may ask for the revisions from an older generation on. A job that is missing is not
/// at the generation of its cursor.
///
/// # Errors
/// [`StoreError::Database`]. A definition that can't be read is part of the answer, not an error.
pub async fn read(
    tx: &Transaction<'_>,
    jobs: &[(JobId, Option<Generation>)],
) -> Result<Vec<Cursor>, StoreError> {
    let (ids, generations): (Vec<_>, Vec<_>) =
        jobs.iter().map(|(job, generation)| (job.0, generation.map(|generation| generation.0))).unzip();
    let rows = tx.query(sql!("job_cursor/read.sql"), &[&ids, &generations]).await?;
    let mut cursors: Vec<Cursor> = Vec::with_capacity(jobs.len());
    for row in &rows {
        let job_id = JobId(row.get("job_id"));
        match cursors.last_mut() {
            Some(cursor) if cursor.job_id == job_id => cursor.revisions.push(revision(row)),
            _ => cursors.push(Cursor {
                job_id,
                tenant_id: TenantId(row.get("tenant_id")),
                name: row.get("name"),
                created_at: row.get("created_at"),
                next_fire_at: row.get("next_fire_at"),
                broken: row.get("broken"),
                revisions: vec![revision(row)],
            }),
        }
    }
    Ok(cursors)
}

fn revision(row: &Row) -> Revision {
    Revision {
        generation: Generation(row.get("generation")),
        in_force_from: row.get("in_force_from"),
        deleted: row.get("deleted"),
        paused: row.get("paused"),
        catches_up: row.get("catches_up"),
        definition: serde_json::from_value(row.get("definition")).map_err(|error| error.to_string()),
    }
}

/// Moves locked cursors to the first instant that is not planned.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn advance(
    tx: &Transaction<'_>,
    moved: &[(JobId, Option<DateTime<Utc>>)],
) -> Result<(), StoreError> {
    if moved.is_empty() {
        return Ok(());
    }
    let (jobs, instants): (Vec<_>, Vec<_>) = moved.iter().map(|(job, at)| (job.0, *at)).unzip();
    tx.execute(sql!("job_cursor/advance.sql"), &[&jobs, &instants]).await.map(drop)
}

/// Marks jobs, whose cursors are locked, as broken, and why: they are not planned until they are changed.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn mark_broken(tx: &Transaction<'_>, broken: &[(JobId, String)]) -> Result<(), StoreError> {
    if broken.is_empty() {
        return Ok(());
    }
    let (jobs, problems): (Vec<_>, Vec<_>) =
        broken.iter().map(|(job, problem)| (job.0, problem.replace('\0', " "))).unzip();
    tx.execute(sql!("job_cursor/mark_broken.sql"), &[&jobs, &problems]).await.map(drop)
}
