//! The ledger's daily partitions. A row of a day without one can't be inserted.
//!
//! Invariant: a partition is dropped only while nobody can open a run of its day, and none is open. Which days are old
//! enough is decided elsewhere; those above the ledger's floor are never dropped.

use crate::{StoreError, Transaction, sql};
use chrono::{DateTime, NaiveDate, Utc};
use std::time::Duration;
use tokio_postgres::Row;

/// Makes the partitions of the days `from` to `through` that are missing, in UTC; returns how many it made. A new one
/// locks the whole ledger for a moment, and is waited for no longer than `patience`.
///
/// # Errors
/// [`StoreError::Database`]; when the ledger could not be locked in time, a later try helps.
pub async fn ensure(
    tx: &Transaction<'_>,
    from: NaiveDate,
    through: NaiveDate,
    patience: Duration,
) -> Result<i32, StoreError> {
    let patience = patience.as_millis().max(1).to_string();
    tx.query(sql!("partition/patience.sql"), &[&patience]).await?;
    let rows = tx.query(sql!("partition/ensure.sql"), &[&from, &through]).await?;
    Ok(rows.first().map_or(0, |row| row.get("made")))
}

/// The days that have a partition, the latest first.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn days(tx: &Transaction<'_>) -> Result<Vec<NaiveDate>, StoreError> {
    let rows = tx.query(sql!("partition/days.sql"), &[]).await?;
    Ok(rows.iter().map(|row| row.get("day")).collect())
}

/// The partition of one of the ledger's tables for one day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// `run`, `run_output` or `run_outcome`.
    pub base: String,
    /// In UTC.
    pub day: NaiveDate,
}

impl std::fmt::Display for Partition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {}", self.base, self.day)
    }
}

/// What became of a partition that was to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a partition with an open run is still there"]
pub enum Dropped {
    /// It is gone once the transaction commits, or was already.
    Gone,
    /// A run of that day is open: it stays.
    Open,
}

/// The partitions of days that have ended by `floor`, the oldest first.
///
/// # Errors
/// [`StoreError::Database`].
pub async fn expired(tx: &Transaction<'_>, floor: DateTime<Utc>) -> Result<Vec<Partition>, StoreError> {
    let rows = tx.query(sql!("partition/expired.sql"), &[&floor]).await?;
    Ok(rows.iter().map(|row| Partition { base: row.get("base"), day: row.get("day") }).collect())
}

/// Drops a partition below the floor, unless a run of its day is open. It locks the day first, then looks, then locks
/// the whole table, each for no longer than `patience`: whoever inserts into other days waits for the last at most.
///
/// # Errors
/// [`StoreError::is_busy`] when somebody else used it all that time; a later try helps. [`StoreError::Database`].
pub async fn drop_closed(
    tx: &Transaction<'_>,
    partition: &Partition,
    patience: Duration,
) -> Result<Dropped, StoreError> {
    let (base, day) = (partition.base.as_str(), partition.day);
    let patience = patience.as_millis().max(1).to_string();
    tx.query(sql!("partition/patience.sql"), &[&patience]).await?;
    let is = |rows: &[Row], what: &str| rows.first().is_some_and(|row| row.get(what));
    if !is(&tx.query(sql!("partition/lock.sql"), &[&base, &day]).await?, "there") {
        return Ok(Dropped::Gone);
    }
    // In the statement after the lock: an open run that was written while this waited is seen.
    if is(&tx.query(sql!("partition/is_open.sql"), &[&day]).await?, "open") {
        return Ok(Dropped::Open);
    }
    tx.query(sql!("partition/drop.sql"), &[&base, &day]).await?;
    Ok(Dropped::Gone)
}
