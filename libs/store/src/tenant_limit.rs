//! What a tenant may define and see: how many jobs, how often they run, how large what they run is, how far back their
//! history goes; and how many channels and check-ins it has, whose limits are nobody's to set.
//!
//! Invariant: who counts against a limit holds the tenant's row, so that two who create at once don't both find the last
//! place free. What a tenant gets of the workers is in [`crate::tenant`]. Deliberately not here: what happens when a
//! limit is reached, and who may set one. Limits hold for what is defined from then on; nothing that exists is changed.

use crate::{Store, StoreError, Transaction, sql};
use chrono::{DateTime, Utc};
use model::ids::{Generation, TenantId};
use std::time::Duration;
use tokio_postgres::Row;

/// Limits; none is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Jobs that are not deleted.
    pub jobs_max: Option<i32>,
    /// The shortest time between two occurrences of a job; whole seconds.
    pub interval_min: Option<Duration>,
    /// Bytes of what a job runs, in the stored form.
    pub payload_bytes_max: Option<i32>,
    /// Days back that runs are shown.
    pub history_days: Option<i32>,
}

/// A tenant's limits, as they are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The tenant's name, for messages.
    pub tenant: String,
    /// Counts the changes, from 1.
    pub generation: Generation,
    /// The limits.
    pub limits: Limits,
}

/// The limits of a tenant as they are now; none when there is no such tenant.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn read(tx: &Transaction<'_>, tenant: TenantId) -> Result<Option<Stored>, StoreError> {
    let rows = tx.query(sql!("tenant_limit/read.sql"), &[&tenant.0]).await?;
    rows.first().map(stored).transpose()
}

/// Keeps everybody else from counting what the tenant has, and from changing its limits, until the transaction ends. What
/// is read in a later statement is what counts.
///
/// # Errors
/// [`StoreError::Database`]; also when there is no such tenant.
pub async fn hold(tx: &Transaction<'_>, tenant: TenantId) -> Result<(), StoreError> {
    tx.execute(sql!("tenant_limit/hold.sql"), &[&tenant.0]).await.map(drop)
}

/// Sets the limits of a tenant that `tx` [holds](hold).
///
/// # Errors
/// [`StoreError::Database`].
pub async fn set(tx: &Transaction<'_>, tenant: TenantId, limits: &Limits) -> Result<(), StoreError> {
    let Limits { jobs_max, interval_min, payload_bytes_max, history_days } = limits;
    let interval_s = interval_min.map(|least| i32::try_from(least.as_secs()).unwrap_or(i32::MAX));
    let params: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
        [&tenant.0, jobs_max, &interval_s, payload_bytes_max, history_days];
    tx.execute(sql!("tenant_limit/set.sql"), &params).await.map(drop)
}

/// How many jobs a tenant has, counted to `most` at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn jobs(tx: &Transaction<'_>, tenant: TenantId, most: i64) -> Result<i64, StoreError> {
    let rows = tx.query(sql!("tenant_limit/jobs.sql"), &[&tenant.0, &most]).await?;
    Ok(rows.first().map_or(0, |row| row.get("jobs")))
}

/// How many channels a tenant has, counted to `most` at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn channels(tx: &Transaction<'_>, tenant: TenantId, most: i64) -> Result<i64, StoreError> {
    let rows = tx.query(sql!("tenant_limit/channels.sql"), &[&tenant.0, &most]).await?;
    Ok(rows.first().map_or(0, |row| row.get("found")))
}

/// How many check-ins a tenant has, counted to `most` at most.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn check_ins(tx: &Transaction<'_>, tenant: TenantId, most: i64) -> Result<i64, StoreError> {
    let rows = tx.query(sql!("tenant_limit/check_ins.sql"), &[&tenant.0, &most]).await?;
    Ok(rows.first().map_or(0, |row| row.get("found")))
}

/// Whether a tenant has all of these channels and check-ins, each named once. Nothing is locked.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn are_there(
    tx: &Transaction<'_>,
    tenant: TenantId,
    channels: &[&str],
    check_ins: &[&str],
) -> Result<bool, StoreError> {
    if channels.is_empty() && check_ins.is_empty() {
        return Ok(true);
    }
    let rows = tx.query(sql!("tenant_limit/there.sql"), &[&tenant.0, &channels, &check_ins]).await?;
    let all = |row: &Row, column, names: &[&str]| row.get::<_, i64>(column) == names.len() as i64;
    Ok(rows.first().is_some_and(|row| all(row, "channels", channels) && all(row, "check_ins", check_ins)))
}

/// The instant before which a tenant sees no runs; none when it sees all.
///
/// # Errors
/// [`StoreError`] when the database can't be asked.
pub async fn shown_from(store: &Store, tenant: TenantId) -> Result<Option<DateTime<Utc>>, StoreError> {
    let client = store.client("read how far back a tenant sees").await?;
    let sql = sql!("tenant_limit/shown_from.sql");
    let rows = client.query("read how far back a tenant sees", sql, &[&tenant.0]).await?;
    Ok(rows.first().map(|row| row.get("shown_from")))
}

fn stored(row: &Row) -> Result<Stored, StoreError> {
    let seconds: Option<i32> = row.get("min_interval_s");
    let seconds = seconds.map(u64::try_from).transpose();
    let seconds = seconds.map_err(|error| StoreError::Corrupt {
        what: "tenant_limit.min_interval_s",
        problem: error.to_string(),
    })?;
    let limits = Limits {
        jobs_max: row.get("max_jobs"),
        interval_min: seconds.map(Duration::from_secs),
        payload_bytes_max: row.get("max_payload_bytes"),
        history_days: row.get("history_days"),
    };
    Ok(Stored { tenant: row.get("name"), generation: Generation(row.get("generation")), limits })
}
