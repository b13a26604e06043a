//! Alerts: one for each job and kind while it is open, with the first and last occurrence and how many there were.
//!
//! Written by the leading watchdog only, in transactions that hold its fence.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::alert::{Cause, Kind};
use model::ids::{JobId, TenantId};
use model::policy::UnknownName;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use uuid::Uuid;

/// What is to be complained about: one or more occurrences of one job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The alert's identity, if it is opened by this.
    pub id: Uuid,
    /// The job's tenant.
    pub tenant_id: TenantId,
    /// The job.
    pub job_id: JobId,
    /// The first occurrence that is new.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// How many.
    pub count: i64,
    /// Why the last one had no success.
    pub cause: Cause,
    /// The same in words; at most 2,048 characters.
    pub detail: String,
}

/// An alert that has nothing left to complain about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// Its identity.
    pub id: Uuid,
    /// Its job.
    pub job_id: JobId,
    /// The job's name.
    pub job_name: String,
    /// The first occurrence without success.
    pub first: DateTime<Utc>,
    /// The last one.
    pub last: DateTime<Utc>,
    /// The first one's deadline.
    pub first_deadline: Option<DateTime<Utc>>,
    /// The last one's deadline.
    pub last_deadline: Option<DateTime<Utc>>,
    /// How many there were.
    pub count: i64,
    /// Why the last one had none.
    pub cause: Cause,
    /// What ended it.
    pub resolution: Resolution,
}

/// What ended an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The job succeeded again.
    Succeeded,
    /// The job was deleted.
    JobDeleted,
    /// The job was paused.
    JobPaused,
    /// The job's owner no longer wants it watched.
    NotWatched,
}

/// Opens an alert for each complaint, or adds it to the job's open one. Returns those that were opened: identity and
/// when.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn raise(
    tx: &Transaction<'_>,
    kind: Kind,
    complaints: &[Complaint],
) -> Result<BTreeMap<Uuid, DateTime<Utc>>, StoreError> {
    let ids: Vec<_> = complaints.iter().map(|complaint| complaint.id).collect();
    let tenants: Vec<_> = complaints.iter().map(|complaint| complaint.tenant_id.0).collect();
    let jobs: Vec<_> = complaints.iter().map(|complaint| complaint.job_id.0).collect();
    let firsts: Vec<_> = complaints.iter().map(|complaint| complaint.first).collect();
    let lasts: Vec<_> = complaints.iter().map(|complaint| complaint.last).collect();
    let counts: Vec<_> = complaints.iter().map(|complaint| complaint.count).collect();
    let causes: Vec<_> = complaints.iter().map(|complaint| complaint.cause.as_str()).collect();
    let details: Vec<_> = complaints.iter().map(|complaint| complaint.detail.as_str()).collect();
    let rows = tx
        .query(
            sql!("alert/raise.sql"),
            &[&kind.as_str(), &ids, &tenants, &jobs, &firsts, &lasts, &counts, &causes, &details],
        )
        .await?;
    let raised = rows.iter().map(|row| (row.get("id"), row.get("opened_at")));
    Ok(raised.filter(|(id, _)| ids.contains(id)).collect())
}

/// Locks up to `limit` open alerts that have nothing left to complain about.
///
/// # Errors
/// [`StoreError::Database`]; [`StoreError::Corrupt`] when a cause is unknown to this version.
pub async fn recovered(tx: &Transaction<'_>, kind: Kind, limit: i64) -> Result<Vec<Recovered>, StoreError> {
    let rows = tx.query(sql!("alert/recovered.sql"), &[&kind.as_str(), &limit]).await?;
    rows.iter().map(read).collect()
}

fn read(row: &Row) -> Result<Recovered, StoreError> {
    let unknown =
        |error: UnknownName| StoreError::Corrupt { what: "alert.cause", problem: error.to_string() };
    let resolution = match row.get("resolution") {
        "SUCCEEDED" => Resolution::Succeeded,
        "JOB_DELETED" => Resolution::JobDeleted,
        "JOB_PAUSED" => Resolution::JobPaused,
        "NOT_WATCHED" => Resolution::NotWatched,
        other => {
            return Err(StoreError::Corrupt { what: "alert/recovered.sql", problem: format!("{other:?}") });
        }
    };
    Ok(Recovered {
        id: row.get("id"),
        job_id: JobId(row.get("job_id")),
        job_name: row.get("job_name"),
        first: row.get("first_occurrence"),
        last: row.get("last_occurrence"),
        first_deadline: row.get("first_deadline"),
        last_deadline: row.get("last_deadline"),
        count: row.get("count"),
        cause: row.get::<_, &str>("cause").parse().map_err(unknown)?,
        resolution,
    })
}

/// Resolves alerts and returns when; one that is missing was resolved before.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn resolve(
    tx: &Transaction<'_>,
    alerts: &[Uuid],
) -> Result<BTreeMap<Uuid, DateTime<Utc>>, StoreError> {
    let rows = tx.query(sql!("alert/resolve.sql"), &[&alerts]).await?;
    Ok(rows.iter().map(|row| (row.get("id"), row.get("resolved_at"))).collect())
}

/// How long no ticker has finished a cycle; none when there never was one.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn ticker_silence(store: &Store) -> Result<Option<Duration>, StoreError> {
    let operation = "look for the ticker's last cycle";
    let client = store.client(operation).await?;
    let rows = client.query(operation, sql!("alert/ticker_silence.sql"), &[]).await?;
    Ok(rows.first().and_then(|row| {
        let last: DateTime<Utc> = row.get::<_, Option<_>>("last_cycle_at")?;
        (row.get::<_, DateTime<Utc>>("at") - last).to_std().ok()
    }))
}
